//! Sockets, time stamps, timers, namespaces, TUN: the only unsafe code.
