//! Packs of a store far away are read in large windows: blobs that are needed
//! one after the other mostly lie one after the other, and each request costs
//! more than its data.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

use crate::error::Result;
use crate::store::{FileKind, Store};

/// How much is fetched at once.
const WINDOW: u64 = 4 << 20;
/// How many windows are kept: the memory that reading takes.
const MAX_WINDOWS: usize = 16;

type Key = (String, u64);

#[derive(Default)]
pub(crate) struct Windows {
    kept: Mutex<VecDeque<(Key, Arc<Window>)>>,
}

#[derive(Default)]
struct Window {
    bytes: OnceLock<Bytes>,
    filling: Mutex<()>,
}

impl Windows {
    /// A piece of a pack, from the window around it.
    pub(crate) fn read(
        &self,
        store: &dyn Store,
        place: FileKind,
        name: &str,
        offset: u64,
        length: u64,
    ) -> Result<Bytes> {
        let first = offset / WINDOW;
        let fits = length > 0 && (offset + length - 1) / WINDOW == first;
        if place != FileKind::Data || !fits {
            return store.read_range(place, name, offset, length);
        }
        let window = self.window((name.to_owned(), first));
        let from = first * WINDOW;
        let bytes = window.fill(|| store.read_up_to(place, name, from, WINDOW))?;
        let (start, end) = (offset - from, offset - from + length);
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Ok(end)) if end <= bytes.len() => Ok(bytes.slice(start..end)),
            // The pack is shorter than in its index: the store reports the
            // error.
            _ => store.read_range(place, name, offset, length),
        }
    }

    fn window(&self, key: Key) -> Arc<Window> {
        let mut kept = self
            .kept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(known, _)| *known == key)
            && let Some(found) = kept.remove(at)
        {
            let window = found.1.clone();
            kept.push_back(found);
            return window;
        }
        let window = Arc::<Window>::default();
        kept.push_back((key, window.clone()));
        if kept.len() > MAX_WINDOWS {
            kept.pop_front();
        }
        window
    }
}

impl Window {
    /// What is in it; the first caller fetches it, the others wait.
    fn fill(&self, fetch: impl FnOnce() -> Result<Bytes>) -> Result<Bytes> {
        let _turn = self
            .filling
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes.clone());
        }
        let bytes = fetch()?;
        Ok(self.bytes.get_or_init(|| bytes).clone())
    }
}
