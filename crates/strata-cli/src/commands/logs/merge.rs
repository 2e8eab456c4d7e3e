//! Several logs as one. What is past is put in the order of time; what is
//! live comes as it comes, since waiting for a silent executable would hold
//! back the others.

use futures_util::Stream;
use futures_util::future::join_all;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use strata_api::strata::v1::LogLine;
use tonic::Status;

/// A line and the number of the stream it came from.
pub(super) type Merged = Result<(usize, LogLine), Status>;

/// One stream out of several.
pub(super) fn merge<S>(streams: Vec<S>, live: bool) -> BoxStream<'static, Merged>
where
    S: Stream<Item = Result<LogLine, Status>> + Send + Unpin + 'static,
{
    let numbered = streams
        .into_iter()
        .enumerate()
        .map(|(number, stream)| stream.map(move |line| line.map(|line| (number, line))));
    if live {
        return stream::select_all(numbered).boxed();
    }
    let sources = numbered
        .map(futures_util::StreamExt::peekable)
        .collect::<Vec<_>>();
    stream::unfold(sources, |mut sources| async move {
        let heads = join_all(sources.iter_mut().map(|source| async {
            std::pin::Pin::new(source)
                .peek()
                .await
                .map(|head| match head {
                    Ok((_, line)) => line.written_at_ms,
                    // An error comes before all lines.
                    Err(_) => i64::MIN,
                })
        }))
        .await;
        let first = heads
            .into_iter()
            .enumerate()
            .filter_map(|(source, time)| Some((time?, source)))
            .min()?;
        let line = sources[first.1].next().await?;
        Some((line, sources))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(times: &[i64]) -> stream::Iter<std::vec::IntoIter<Result<LogLine, Status>>> {
        let lines: Vec<_> = times
            .iter()
            .map(|&written_at_ms| {
                Ok(LogLine {
                    written_at_ms,
                    ..Default::default()
                })
            })
            .collect();
        stream::iter(lines)
    }

    #[tokio::test]
    async fn the_past_is_in_the_order_of_time() {
        let merged = merge(vec![log(&[1, 4, 5]), log(&[2, 3, 9]), log(&[])], false);
        let order: Vec<_> = merged
            .map(|line| {
                line.map(|(source, line)| (line.written_at_ms, source))
                    .unwrap()
            })
            .collect()
            .await;
        assert_eq!(order, [(1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (9, 1)]);
    }

    #[tokio::test]
    async fn live_logs_lose_nothing() {
        let merged = merge(vec![log(&[1, 2]), log(&[1, 2, 3])], true);
        assert_eq!(merged.count().await, 5);
    }
}
