//! Questions read and answers written, with a parser that is used on the
//! open internet: what arrives here was written by untrusted parties.

use std::net::IpAddr;
use std::str::FromStr as _;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, ToName as _, Ttl};
use domain::rdata::{A, Aaaa, Ptr};

use super::directory::{Answer, Directory, QueryType};

/// How long others may remember an answer: pods come and go.
const KEEP: Ttl = Ttl::from_secs(5);

/// What to do with a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueryAction {
    /// Send this back.
    Reply(Vec<u8>),
    /// The client should query another server.
    Forward,
    /// It deserves no answer.
    Ignore,
}

/// Decides about a message.
pub(crate) fn react(bytes: &[u8], directory: &Directory, client: IpAddr) -> QueryAction {
    let Ok(message) = Message::from_slice(bytes) else {
        return QueryAction::Ignore;
    };
    let header = message.header();
    if header.qr() {
        return QueryAction::Ignore;
    }
    if header.opcode() != Opcode::QUERY {
        return error(message, Rcode::NOTIMP);
    }
    let Ok(question) = message.sole_question() else {
        return error(message, Rcode::FORMERR);
    };
    if question.qclass() != Class::IN {
        return QueryAction::Forward;
    }
    let kind = match question.qtype() {
        Rtype::A => QueryType::A,
        Rtype::AAAA => QueryType::Aaaa,
        Rtype::PTR => QueryType::Ptr,
        _ => QueryType::Other,
    };
    match directory.answer(&question.qname().to_string(), kind, client) {
        Answer::NotOurs => QueryAction::Forward,
        Answer::NoSuchName => error(message, Rcode::NXDOMAIN),
        Answer::Addresses(addresses) => reply(write_addresses(message, &addresses)),
        Answer::Name(name) => reply(write_name(message, &name)),
    }
}

/// Reports that no server could be queried.
pub(crate) fn failure(bytes: &[u8]) -> Option<Vec<u8>> {
    let message = Message::from_slice(bytes).ok()?;
    match error(message, Rcode::SERVFAIL) {
        QueryAction::Reply(bytes) => Some(bytes),
        _ => None,
    }
}

/// Whether the one is an answer to the other.
pub(crate) fn answers(question: &[u8], answer: &[u8]) -> bool {
    let (Ok(question), Ok(answer)) = (Message::from_slice(question), Message::from_slice(answer))
    else {
        return false;
    };
    answer.header().qr()
        && answer.header().id() == question.header().id()
        && match (question.sole_question(), answer.sole_question()) {
            (Ok(asked), Ok(answered)) => asked == answered,
            // Refusals may leave the question out.
            (_, Err(_)) => answer.header().rcode() != Rcode::NOERROR,
            _ => false,
        }
}

fn reply(written: Option<Vec<u8>>) -> QueryAction {
    written.map_or(QueryAction::Ignore, QueryAction::Reply)
}

fn error(message: &Message<[u8]>, code: Rcode) -> QueryAction {
    let started = MessageBuilder::new_vec().start_answer(message, code);
    reply(started.ok().map(|mut builder| {
        builder.header_mut().set_aa(code == Rcode::NXDOMAIN);
        builder.header_mut().set_ra(true);
        builder.finish()
    }))
}

fn write_addresses(message: &Message<[u8]>, addresses: &[IpAddr]) -> Option<Vec<u8>> {
    let name: Name<Vec<u8>> = message.sole_question().ok()?.qname().to_name();
    let mut builder = MessageBuilder::new_vec()
        .start_answer(message, Rcode::NOERROR)
        .ok()?;
    builder.header_mut().set_aa(true);
    builder.header_mut().set_ra(true);
    for address in addresses {
        match address {
            IpAddr::V4(v4) => builder.push((&name, KEEP, A::new(*v4))).ok()?,
            IpAddr::V6(v6) => builder.push((&name, KEEP, Aaaa::new(*v6))).ok()?,
        }
    }
    Some(builder.finish())
}

fn write_name(message: &Message<[u8]>, text: &str) -> Option<Vec<u8>> {
    let name: Name<Vec<u8>> = message.sole_question().ok()?.qname().to_name();
    let target = Name::<Vec<u8>>::from_str(text).ok()?;
    let mut builder = MessageBuilder::new_vec()
        .start_answer(message, Rcode::NOERROR)
        .ok()?;
    builder.header_mut().set_aa(true);
    builder.header_mut().set_ra(true);
    builder.push((&name, KEEP, Ptr::new(target))).ok()?;
    Some(builder.finish())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Endpoint;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn directory() -> Directory {
        let directory = Directory::new(
            "10.42.0.0/16".parse().unwrap(),
            [10, 42, 0, 1].into(),
            crate::RemoteNames::default(),
        );
        directory.insert(&Endpoint {
            name: "web".into(),
            aliases: Vec::new(),
            address: [10, 42, 0, 7].into(),
            ports: Vec::new(),
            owner: Default::default(),
        });
        directory
    }

    fn question(name: &str, kind: Rtype) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec().question();
        builder.header_mut().set_id(77);
        builder.header_mut().set_rd(true);
        let name = Name::<Vec<u8>>::from_str(name).unwrap();
        builder.push((name, kind)).unwrap();
        builder.finish()
    }

    #[test]
    fn an_answer_answers_its_question() {
        let asked = question("web.strata.internal", Rtype::A);
        let QueryAction::Reply(answer) = react(&asked, &directory(), HOST) else {
            panic!("no reply");
        };
        assert!(answers(&asked, &answer));
        assert!(!answers(&question("other", Rtype::A), &answer));
        let message = Message::from_octets(&answer[..]).unwrap();
        let records: Vec<_> = message
            .answer()
            .unwrap()
            .limit_to::<A>()
            .map(|record| record.unwrap().data().addr())
            .collect();
        assert_eq!(records, [std::net::Ipv4Addr::new(10, 42, 0, 7)]);
    }

    #[test]
    fn an_answer_is_not_answered() {
        let mut bytes = question("web", Rtype::A);
        bytes[2] |= 0x80;
        assert_eq!(react(&bytes, &directory(), HOST), QueryAction::Ignore);
    }

    proptest! {
        #[test]
        fn no_packet_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = react(&bytes, &directory(), HOST);
            let _ = failure(&bytes);
            let _ = answers(&bytes, &bytes);
        }

        #[test]
        fn no_cut_question_is_too_strange(cut in 0usize..40, flip in 0usize..40, bits: u8) {
            let mut bytes = question("web.strata.internal", Rtype::A);
            let at = flip.min(bytes.len() - 1);
            bytes[at] ^= bits;
            bytes.truncate(cut);
            let _ = react(&bytes, &directory(), HOST);
        }
    }
}
