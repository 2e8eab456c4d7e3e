//! Requests whose bodies do not end, and what of them is counted.

use std::io;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, stream};

use super::super::held::HeldCount;
use super::*;

type Piece = Result<Bytes, io::Error>;

fn pieces(pieces: &'static [&'static [u8]]) -> impl Stream<Item = Piece> + Send {
    stream::iter(pieces).map(|piece| Ok(Bytes::from_static(piece)))
}

fn held(limit: usize) -> (Arc<HeldCount>, HeldBytes) {
    let count = Arc::new(HeldCount::new(limit));
    (count.clone(), HeldBytes::none(vec![count]))
}

async fn whole(body: Body) -> Bytes {
    body.collect().await.unwrap().to_bytes()
}

#[tokio::test(start_paused = true)]
async fn request_is_handed_on_only_when_all_of_it_is_there() {
    for kind in [BodyKind::Unary, BodyKind::Rest] {
        // The message is there, and its end is not.
        let begun = pieces(&[b"\0\0\0\0\x02", b"ab"]).chain(stream::pending());
        let (count, held_bytes) = held(100);
        let received = kind.receive(Body::from_stream(begun), held_bytes).await;
        assert!(matches!(received, Err(BodyRefused::TooSlow)), "{kind:?}");
        assert!(count.is_zero());
        let ended = Body::from_stream(pieces(&[b"\0\0\0\0\x02", b"ab"]));
        let (count, held_bytes) = held(100);
        let Ok((body, held_bytes)) = kind.receive(ended, held_bytes).await else {
            panic!("{kind:?} is received");
        };
        assert!(!count.is_zero(), "as long as its handler works");
        assert_eq!(&whole(body).await[..], b"\0\0\0\0\x02ab");
        drop(held_bytes);
        assert!(count.is_zero());
    }
}

#[tokio::test]
async fn request_that_does_not_fit_is_refused() {
    for kind in [BodyKind::Unary, BodyKind::Rest] {
        let (count, held_bytes) = held(6);
        let body = Body::from_stream(pieces(&[b"\0\0\0\0\x02", b"ab"]));
        let received = kind.receive(body, held_bytes).await;
        assert!(matches!(received, Err(BodyRefused::Over(_))), "{kind:?}");
        assert!(count.is_zero());
    }
}

/// Its handler refuses it, in the words of its API.
#[tokio::test]
async fn request_that_is_too_large_for_any_handler_is_handed_on() {
    let large: &'static [u8] = vec![b'x'; REST_BYTES].leak();
    let (_, held_bytes) = held(usize::MAX);
    let more = (0..3).map(move |_| Piece::Ok(Bytes::from_static(large)));
    let body = Body::from_stream(stream::iter(more));
    let received = BodyKind::Rest.receive(body, held_bytes).await;
    let Ok((body, _)) = received else {
        panic!("handed on");
    };
    assert_eq!(whole(body).await.len(), 3 * REST_BYTES);
    let begun = pieces(&[b"\0\xff\xff\xff\xff"]).chain(stream::pending());
    let (_, held_bytes) = held(100);
    let received = BodyKind::Unary.receive(Body::from_stream(begun), held_bytes);
    assert!(received.await.is_ok());
}

#[tokio::test]
async fn unfinished_message_of_a_stream_is_counted_and_finished_ones_are_not() {
    let (count, held_bytes) = held(9);
    let finished = b"\0\0\0\0\x02ab\0\0\0\0\x00\0\0\0\0\x02ab\0\0\0";
    let many = (0..1000).map(|_| Piece::Ok(Bytes::from_static(b"\0\x03abc\0\0\0")));
    let first = stream::iter([Ok(Bytes::from_static(finished))]);
    let too_large = pieces(&[b"\0\x04abc", b"d"]);
    let body = Body::from_stream(first.chain(stream::iter(many)).chain(too_large));
    let Ok((mut body, None)) = BodyKind::Stream.receive(body, held_bytes).await else {
        panic!("a stream is not waited for");
    };
    for _ in 0..1002 {
        assert!(body.frame().await.unwrap().is_ok());
        assert!(!count.is_zero());
    }
    // Its last byte: the message is complete.
    assert!(body.frame().await.unwrap().is_ok());
    assert!(count.is_zero());
    let (_, held_bytes) = held(9);
    let body = Body::from_stream(pieces(&[b"\0\0\0\0\x05abc", b"d"]));
    let Ok((mut body, None)) = BodyKind::Stream.receive(body, held_bytes).await else {
        panic!("a stream is not waited for");
    };
    // All of it is counted from its header on.
    assert!(body.frame().await.unwrap().is_err());
}

/// A stream that were waited for would never begin.
#[test]
fn every_call_with_a_stream_of_requests_is_known() {
    use prost::Message as _;
    let mut expected: Vec<String> = Vec::new();
    let sets = [
        strata_api::DESCRIPTORS,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    for set in sets {
        let set = prost_types::FileDescriptorSet::decode(set).unwrap();
        for file in &set.file {
            for service in &file.service {
                let streams = service.method.iter().filter(|it| it.client_streaming());
                let path =
                    |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
                expected.extend(streams.map(|it| path(it.name())));
            }
        }
    }
    expected.retain(|path| !path.starts_with("/etcdserverpb."));
    expected.sort();
    assert_eq!(expected, STREAMING_CALLS);
}
