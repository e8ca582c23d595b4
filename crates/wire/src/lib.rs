//! Netlink tc/link codecs and packet views (pure).
