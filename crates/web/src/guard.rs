//! Whether a request comes from a page of ours, and for us.
//!
//! Principles: a page elsewhere can make a browser send requests here, and a name of its own can lead here (DNS
//! rebinding): so `Host` must be an address or a name that was told, and where a browser says where a request comes
//! from, that must be here. Non-goals: who it is (the token says).

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, header};

/// By which names this machine is called.
#[derive(Debug, Clone)]
pub(crate) struct Names(Vec<String>);

impl Names {
    pub(crate) fn new(told: &[String]) -> Self {
        let mut names: Vec<String> = told.iter().map(|n| n.to_ascii_lowercase()).collect();
        names.push("localhost".to_owned());
        Names(names)
    }

    /// Why a request is not served: an HTTP status and a line; `None`: it is.
    pub(crate) fn refuse(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Option<(u16, &'static str)> {
        let text = |name| headers.get(name).map(|v| v.to_str().unwrap_or("\0"));
        if headers.get_all(header::HOST).iter().count() != 1 {
            return Some((400, "one Host is needed"));
        }
        let Some(host) = text(header::HOST).filter(|h| self.is_known(h)) else {
            return Some((
                421,
                "this machine is not called so: http_names in /etc/evenkeel.toml has its names",
            ));
        };
        let same = |origin: &str| {
            origin
                .split_once("://")
                .is_some_and(|(_, o)| o.eq_ignore_ascii_case(host))
        };
        if text(header::ORIGIN).is_some_and(|o| !same(o)) {
            return Some((403, "a page of another origin asks"));
        }
        let site = headers
            .get("sec-fetch-site")
            .map(|v| v.to_str().unwrap_or("\0"));
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        match site {
            Some("same-origin" | "none") | None => None,
            // A link that leads here from elsewhere is no harm.
            Some(_) if !changes && is_navigation(headers) => None,
            Some(_) => Some((403, "a page of another site asks")),
        }
    }

    /// Whether `host`, with or without a port, is an address or a name of this machine.
    fn is_known(&self, host: &str) -> bool {
        let bare = match host.strip_prefix('[') {
            Some(v6) => match v6.split_once(']') {
                Some((address, rest)) if rest.is_empty() || is_port(rest) => address,
                _ => return false,
            },
            None => match host.split_once(':') {
                Some((name, _)) if is_port(&host[name.len()..]) => name,
                Some(_) => return false,
                None => host,
            },
        };
        bare.parse::<IpAddr>().is_ok() || self.0.iter().any(|n| n.eq_ignore_ascii_case(bare))
    }
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .is_some_and(|p| p.parse::<u16>().is_ok())
}

fn is_navigation(headers: &HeaderMap) -> bool {
    headers
        .get("sec-fetch-mode")
        .is_some_and(|m| m == "navigate")
}

/// The token of an `Authorization: Bearer TOKEN`.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let token = value.strip_prefix("Bearer ")?.trim();
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(method: &Method, all: &[(&'static str, &str)]) -> Option<u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, value.parse().unwrap());
        }
        let names = Names::new(&["Gateway.lan".to_owned()]);
        names.refuse(method, &headers).map(|r| r.0)
    }

    #[test]
    fn who_is_called_so() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8017",
            "[::1]:8017",
            "[fe80::1]",
            "localhost:1",
            "gateway.LAN",
            "192.0.2.1:80",
        ] {
            assert_eq!(asked(&Method::GET, &[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8017",
            "",
            ":80",
            "[::1",
            "::1",
            "localhost:x",
            "localhost:1:2",
            "127.0.0.1.evil.example",
            "localhost:99999",
        ] {
            assert_eq!(asked(&Method::GET, &[("host", host)]), Some(421), "{host}");
        }
        assert_eq!(asked(&Method::GET, &[]), Some(400));
        assert_eq!(
            asked(
                &Method::GET,
                &[("host", "localhost"), ("host", "localhost")]
            ),
            Some(400)
        );
    }

    #[test]
    fn pages_of_others_are_refused() {
        let host = ("host", "127.0.0.1:8017");
        let post = |more: &[(&'static str, &str)]| asked(&Method::POST, &[&[host], more].concat());
        assert_eq!(post(&[]), None);
        assert_eq!(
            post(&[
                ("origin", "http://127.0.0.1:8017"),
                ("sec-fetch-site", "same-origin")
            ]),
            None
        );
        assert_eq!(post(&[("origin", "https://127.0.0.1:8017")]), None);
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1",
            "http://127.0.0.1:80171",
        ] {
            assert_eq!(post(&[("origin", origin)]), Some(403), "{origin}");
        }
        assert_eq!(
            post(&[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate")
            ]),
            Some(403)
        );
        let get = |more: &[(&'static str, &str)]| asked(&Method::GET, &[&[host], more].concat());
        assert_eq!(
            get(&[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate")
            ]),
            None
        );
        assert_eq!(
            get(&[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "no-cors")
            ]),
            Some(403)
        );
        assert_eq!(get(&[("sec-fetch-site", "none")]), None);
    }

    proptest! {
        #[test]
        fn any_host_is_known_or_not(host in ".{0,60}") {
            let names = Names::new(&[]);
            if names.is_known(&host) {
                prop_assert!(!host.contains("example"));
            }
        }
    }
}
