//! Parsers of crates that take long to build: their files need nothing else of
//! their crate, and are compiled here by path. Their own crates run the same
//! seeds as tests.

use crate::Target;

#[allow(dead_code)]
#[path = "../../crates/strata-server/src/cron.rs"]
mod cron;
#[allow(dead_code)]
#[path = "../../crates/strata-transport/src/authority/header_block.rs"]
mod header_block;
#[allow(dead_code)]
#[path = "../../crates/strata-machines/src/redfish/range.rs"]
mod range;
mod subject;
#[allow(dead_code)]
#[path = "../../crates/strata-server/src/core/subnets.rs"]
mod subnets;
#[allow(dead_code)]
#[path = "../../crates/strata-node/src/pods/users.rs"]
mod users;
#[allow(dead_code)]
#[path = "../../crates/strata-node/src/agent/witness_message.rs"]
mod witness_message;

/// The targets, by the names of their corpora.
pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("agent_config", agent_config),
    ("audit_subject", audit_subject),
    ("cron", cron),
    ("header_block", header_block),
    ("http_range", http_range),
    ("node_range", node_range),
    ("passwd", passwd),
    ("witness_message", witness_message),
];

fn agent_config(data: &[u8]) {
    let _ = strata_cluster_agent::AgentConfig::parse(data);
}

/// The name of the object that a request is about, for each form of a name.
fn audit_subject(data: &[u8]) {
    for call in [
        "/runtime.CellService/Start",
        "/runtime.CellService/Stop",
        "/runtime.Pods/Create",
        "/scheduler.InstanceService/Create",
        "/strata.v1.Identity/RevokeToken",
    ] {
        let found = subject::find(call, data).unwrap_or_default();
        // Bytes that are no text are replaced by three.
        assert!(found.name.len() <= 3 * data.len() + 1, "{found:?}");
    }
    let _ = subject::is_whole(data, data.len());
}

fn cron(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if let Ok(cron) = text.parse::<cron::Cron>() {
        for ms in [0, 1_709_164_799_000, i64::MAX, i64::MIN] {
            assert!(cron.after(ms).is_none_or(|next| next > ms));
        }
    }
}

fn header_block(data: &[u8]) {
    if let Some(read) = header_block::without_authority(data) {
        assert!(read.len() <= data.len());
        assert_eq!(header_block::without_authority(&read), Some(read.clone()));
    }
}

fn http_range(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for length in [0, 1, 100, u64::MAX] {
        if let range::ByteRange::Part(from, to) = range::parse(Some(&text), length) {
            assert!(from < to && to <= length);
        }
    }
}

fn node_range(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(range) = text.parse::<subnets::Range>() {
        let first = range.subnets().next();
        assert!(first.is_some_and(|subnet| range.has(&subnet)));
        let _ = range.has(&text);
    }
}

/// A user, `/etc/passwd` and `/etc/group` of an image, parted by zeros.
fn passwd(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\0');
    let mut part = || parts.next().unwrap_or_default();
    let (wanted, passwd, groups) = (part(), part(), part());
    let (user, group) = match wanted.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (wanted, None),
    };
    let _ = users::resolve(passwd, groups, user, group);
}

/// Requests and replies between nodes, whose codes are checked afterwards.
fn witness_message(data: &[u8]) {
    if let Some(request) = witness_message::request(data) {
        assert_eq!(request.body.len() + request.code.len(), data.len());
        assert!(request.name.len() <= 255);
    }
    let nonce: Vec<u8> = (0..16).collect();
    if let Some(reply) = witness_message::reply(data, &nonce) {
        assert_eq!(reply.body.len() + reply.code.len(), data.len());
    }
}
