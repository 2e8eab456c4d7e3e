//! Which server is tried for a connection, and in which order. Pure.

use std::net::SocketAddr;

/// What is thought of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerHealth {
    /// There is no reason against it.
    Good,
    /// It accepts, and then left a client without an answer.
    Suspect,
    /// It did not accept when it was tried last.
    Down,
}

/// All servers in the order in which they are tried: good ones first, each
/// at the head in its turn. The others come after them and not never: that a
/// server is down is known only from the last time it was tried.
pub(super) fn order(servers: &[(SocketAddr, ServerHealth)], turn: usize) -> Vec<SocketAddr> {
    let mut order = Vec::with_capacity(servers.len());
    for server_health in [
        ServerHealth::Good,
        ServerHealth::Suspect,
        ServerHealth::Down,
    ] {
        let same = servers.iter().filter(|(_, it)| *it == server_health);
        let mut same: Vec<SocketAddr> = same.map(|(server, _)| *server).collect();
        if !same.is_empty() {
            let by = turn % same.len();
            same.rotate_left(by);
        }
        order.append(&mut same);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn server(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], number))
    }

    fn server_healths() -> impl Strategy<Value = Vec<(SocketAddr, ServerHealth)>> {
        let server_health = prop_oneof![
            Just(ServerHealth::Good),
            Just(ServerHealth::Suspect),
            Just(ServerHealth::Down)
        ];
        prop::collection::vec(server_health, 0..8)
            .prop_map(|all| (1..).map(server).zip(all).collect())
    }

    #[test]
    fn good_ones_take_turns_and_the_rest_come_after_them() {
        let [a, b, c] = [server(1), server(2), server(3)];
        let all = [
            (a, ServerHealth::Good),
            (b, ServerHealth::Down),
            (c, ServerHealth::Good),
        ];
        assert_eq!(order(&all, 0), [a, c, b]);
        assert_eq!(order(&all, 1), [c, a, b]);
        assert_eq!(order(&all, 2), [a, c, b]);
    }

    proptest! {
        #[test]
        fn each_server_is_tried_once_and_healthy_ones_first(all in server_healths(), turn: usize) {
            let order = order(&all, turn);
            let mut sorted = order.clone();
            sorted.sort();
            let mut servers: Vec<_> = all.iter().map(|(server, _)| *server).collect();
            servers.sort();
            prop_assert_eq!(sorted, servers);
            let of = |server| all.iter().find(|(it, _)| *it == server).unwrap().1;
            let server_healths: Vec<_> = order.into_iter().map(of).collect();
            prop_assert!(server_healths.is_sorted());
        }

        #[test]
        fn in_as_many_turns_as_there_are_good_ones_each_is_first_once(all in server_healths(), begin in 0usize..1000) {
            let good: Vec<_> = all.iter().filter(|(_, s)| *s == ServerHealth::Good).collect();
            let mut first: Vec<_> = (0..good.len())
                .filter_map(|turn| order(&all, begin + turn).first().copied())
                .collect();
            first.sort();
            first.dedup();
            prop_assert_eq!(first.len(), good.len());
        }
    }
}
