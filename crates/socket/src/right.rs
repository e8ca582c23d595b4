//! Who may do what.
//!
//! Principles: root and the group `evenkeel` may do everything; who serves pages may read everything, and change
//! something only with the token, which it does not have itself; everybody else may read what is in force, and nothing
//! about who uses the line. Non-goals: what a request does.

use evenkeel_sys::peer::Peer;

use crate::{Reply, Request};

/// What a peer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Everything.
    All,
    /// Read everything; change with the token.
    Pages,
    /// Read what is in force.
    Status,
}

/// Who has which.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// The group whose members may do everything, if there is one.
    pub group: Option<u32>,
    /// The user who serves pages.
    pub pages: Option<u32>,
    /// What lets pages change something.
    pub token: Option<String>,
}

impl Rights {
    /// With the group of that name.
    pub fn of_group(name: &str) -> Self {
        let group = nix::unistd::Group::from_name(name).ok().flatten();
        Rights {
            group: group.map(|g| g.gid.as_raw()),
            ..Rights::default()
        }
    }

    /// That of a peer. Who serves pages has no more than that, whatever its groups.
    pub fn of(&self, peer: &Peer) -> Right {
        if peer.user == 0 {
            return Right::All;
        }
        if self.pages == Some(peer.user) {
            return Right::Pages;
        }
        match self.group {
            Some(group) if peer.groups.contains(&group) => Right::All,
            _ => Right::Status,
        }
    }

    /// Why `request` is not permitted; `None`: it is.
    pub fn refuse(&self, right: Right, request: &Request) -> Option<Reply> {
        let denied = |what| Some(Reply::refused(3, what));
        match (right, request) {
            (_, Request::Check { token }) if !self.is_token(Some(token)) => {
                denied("this is not the token")
            }
            (Right::All, _)
            | (_, Request::Status { .. } | Request::Check { .. })
            | (
                Right::Pages,
                Request::Flows { .. } | Request::History { .. } | Request::Usage { .. },
            ) => None,
            (Right::Status, _) => denied("not permitted: be root, or in the group evenkeel"),
            (Right::Pages, _) if self.is_token(request.token()) => None,
            (Right::Pages, _) => denied("not permitted without the token"),
        }
    }

    /// In a time that does not tell how much of it is right.
    fn is_token(&self, given: Option<&str>) -> bool {
        let (Some(token), Some(given)) = (&self.token, given) else {
            return false;
        };
        let differ = token
            .bytes()
            .zip(given.bytes())
            .fold(0, |d, (a, b)| d | (a ^ b));
        token.len() == given.len() && differ == 0 && !token.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_what() {
        let rights = Rights {
            group: Some(50),
            pages: Some(7),
            token: Some("secret".into()),
        };
        let peer = |user, groups: &[u32]| Peer {
            user,
            groups: groups.to_vec(),
            process: 1,
        };
        assert_eq!(rights.of(&peer(0, &[])), Right::All);
        assert_eq!(rights.of(&peer(1000, &[100, 50])), Right::All);
        assert_eq!(rights.of(&peer(1000, &[100])), Right::Status);
        assert_eq!(rights.of(&peer(7, &[50])), Right::Pages);
        assert_eq!(Rights::default().of(&peer(7, &[50])), Right::Status);

        let token = |t: &str| Some(t.to_owned());
        let status = Request::Status { device: None };
        let flows = Request::Flows {
            device: None,
            all: false,
        };
        let reload = |t| Request::Reload { token: t };
        let check = |t: &str| Request::Check { token: t.into() };
        let may = |right, request: &Request| rights.refuse(right, request).is_none();
        for right in [Right::All, Right::Pages, Right::Status] {
            assert!(may(right, &status) && may(right, &check("secret")));
            assert!(!may(right, &check("secre")) && !may(right, &check("")));
        }
        assert!(
            may(Right::All, &flows) && may(Right::Pages, &flows) && !may(Right::Status, &flows)
        );
        assert!(may(Right::All, &reload(None)));
        assert!(may(Right::Pages, &reload(token("secret"))));
        for wrong in [None, token(""), token("secreT"), token("secret ")] {
            assert!(!may(Right::Pages, &reload(wrong)));
        }
        // Without rights the token helps nobody.
        assert!(!may(Right::Status, &reload(token("secret"))));
        // Where there is no token nobody has it.
        assert!(
            Rights::default()
                .refuse(Right::Pages, &reload(token("")))
                .is_some()
        );
    }
}
