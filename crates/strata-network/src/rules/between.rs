//! The table of the bridge's frames. What goes from one pod to another of the
//! same node is switched, not routed: no rule for packets sees it. So the same
//! question, which project may reach which, is asked here for the port that a
//! frame comes in by and the one that it goes out by. Nothing in the frame is
//! believed, and every protocol is covered, broadcasts included: those go out
//! by each port on their own.
//!
//! ```text
//! forward      bridge              what was published passes; else who sends
//!                                  decides on the chain
//! from-N       from forward        project N: what it may reach, and answer
//! answers      from from-N         anything but the beginning of a TCP
//!                                  connection
//! ```
//!
//! Frames have no connection state here, so that between two projects of one
//! node of which one allows the other, datagrams pass both ways.

use crate::netlink::{Batch, nft};

use super::chains::{PASSED_ON, chain_of};
use super::elements::{SetName, chain_of_project};
use super::expression::{Verdict, rule_of};

const FAMILY: u8 = nft::NFPROTO_BRIDGE;

/// Writes all chains and their rules but for those of projects.
pub(super) fn write(batch: &mut Batch, table: &str) {
    chain_of(batch, FAMILY, table, "answers", None);
    // After br_netfilter, which has the rules for packets run first.
    let forward = Some(("filter", 2, 100));
    chain_of(batch, FAMILY, table, "forward", forward);
    rule_of(batch, FAMILY, (table, "forward"), |r| {
        r.marked(PASSED_ON)
            .mark(PASSED_ON, false)
            .verdict(&Verdict::Accept);
    });
    rule_of(batch, FAMILY, (table, "forward"), |r| {
        r.decided_by_port(SetName::BridgeFrom.text());
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.opens_connection().verdict(&Verdict::Drop);
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.verdict(&Verdict::Accept);
    });
}

/// Writes the chain that judges what a project sends.
pub(super) fn write_project(batch: &mut Batch, table: &str, project: u32) {
    let name = chain_of_project(project);
    chain_of(batch, FAMILY, table, &name, None);
    rule_of(batch, FAMILY, (table, &name), |r| {
        r.reaches_port(project, SetName::BridgeReach.text())
            .verdict(&Verdict::Accept);
    });
    rule_of(batch, FAMILY, (table, &name), |r| {
        r.reaches_port(project, SetName::BridgeAnswers.text())
            .verdict(&Verdict::Jump("answers"));
    });
    rule_of(batch, FAMILY, (table, &name), |r| {
        r.leaves_by_one_of(SetName::BridgePorts.text())
            .verdict(&Verdict::Drop);
    });
}
