//! Two channels of one executable as one stream, by the time of their lines.
//! Beyond the history, where only one has lines it goes ahead: the other may
//! never write again.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use strata_cell::log::{Channel, LogEntry};
use strata_types::Result;

use super::LogStream;

/// One channel and the lines of it that wait for their turn.
struct Side {
    channel: Channel,
    stream: Option<LogStream>,
    /// All of its history has arrived.
    is_live: bool,
    lines: VecDeque<LogEntry>,
}

impl Side {
    /// Reads what has arrived: a batch, or with `whole` all of the history and
    /// nothing beyond it, which would be cut as if it were history. An error ends
    /// the side.
    fn fill(&mut self, whole: bool, context: &mut Context<'_>) -> Option<strata_types::Error> {
        let wants = |side: &Self| match whole {
            true => !side.is_live,
            false => side.lines.is_empty(),
        };
        while wants(self) {
            match Pin::new(self.stream.as_mut()?).poll_next(context) {
                Poll::Ready(Some(Ok(batch))) => {
                    self.is_live |= batch.is_empty();
                    self.lines.extend(batch);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.stream = None;
                    return Some(error);
                }
                Poll::Ready(None) => self.stream = None,
                Poll::Pending => return None,
            }
        }
        None
    }
}

/// Lines of several channels.
pub(crate) struct Merged {
    sides: Vec<Side>,
    /// Only so many of the lines that are there; none once they are counted.
    tail: Option<usize>,
}

/// Merges channels by time; of their history, only the last `tail` lines.
pub(crate) fn merge(streams: Vec<(Channel, LogStream)>, tail: Option<usize>) -> Merged {
    let side = |(channel, stream)| Side {
        channel,
        stream: Some(stream),
        is_live: false,
        lines: VecDeque::new(),
    };
    Merged {
        sides: streams.into_iter().map(side).collect(),
        tail,
    }
}

impl Merged {
    /// The side whose next line is the oldest.
    fn oldest(&mut self) -> Option<&mut Side> {
        self.sides
            .iter_mut()
            .filter(|side| !side.lines.is_empty())
            .min_by_key(|side| side.lines.front().map(|line| line.at_ns))
    }

    /// Drops the oldest lines beyond the tail.
    fn cut(&mut self, tail: usize) {
        let lines: usize = self.sides.iter().map(|side| side.lines.len()).sum();
        for _ in tail..lines {
            self.oldest().and_then(|side| side.lines.pop_front());
        }
    }
}

impl Stream for Merged {
    type Item = Result<(Channel, LogEntry)>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let whole = self.tail.is_some();
            for side in &mut self.sides {
                if let Some(error) = side.fill(whole, context) {
                    return Poll::Ready(Some(Err(error)));
                }
            }
            let waits = |side: &Side| {
                (whole || side.lines.is_empty()) && side.stream.is_some() && !side.is_live
            };
            if self.sides.iter().any(waits) {
                return Poll::Pending;
            }
            // A side that is empty after the cut has to be polled again: a side
            // with lines was not, so nothing would wake this stream.
            match self.tail.take() {
                Some(tail) => self.cut(tail),
                None => break,
            }
        }
        let next = self.oldest();
        match next.and_then(|side| Some((side.channel, side.lines.pop_front()?))) {
            Some(line) => Poll::Ready(Some(Ok(line))),
            None if self.sides.iter().all(|side| side.stream.is_none()) => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use tokio::sync::mpsc;

    use super::*;

    fn line(text: &'static str) -> LogEntry {
        LogEntry {
            line: text.into(),
            at_ns: 0,
            lost: 0,
            is_gap: false,
        }
    }

    #[tokio::test]
    async fn stream_whose_history_is_cut_to_nothing_is_woken_by_what_follows() {
        let (sender, batches) = mpsc::channel(4);
        let mut merged = merge(vec![(Channel::Stdout, LogStream { batches })], Some(0));
        sender.send(Ok(vec![line("early")])).await.unwrap();
        sender.send(Ok(Vec::new())).await.unwrap();
        let reading = tokio::spawn(async move { merged.next().await });
        tokio::task::yield_now().await;
        sender.send(Ok(vec![line("late")])).await.unwrap();
        let (_, next) = reading.await.unwrap().unwrap().unwrap();
        assert_eq!(&next.line[..], b"late");
    }
}
