//! Progress of a pull: on a terminal a redrawn line per active layer; else a
//! line per change of a layer.

use std::collections::HashMap;

use strata_api::strata::v1::{ImageLayerPhase, ImageLayerProgress};

use crate::output::human;
use crate::printer::Printer;

/// Maximum number of lines drawn.
const MOST_LINES: usize = 8;
const BAR: usize = 24;

/// Progress of a pull as printed so far.
pub(crate) struct PullProgress {
    live: bool,
    lines: usize,
    phases: HashMap<String, ImageLayerPhase>,
}

impl PullProgress {
    pub(crate) fn new(live: bool) -> Self {
        Self {
            live,
            lines: 0,
            phases: HashMap::new(),
        }
    }

    pub(crate) fn show(&mut self, printer: &mut Printer, layers: &[ImageLayerProgress]) {
        if self.live {
            let lines = drawing(layers);
            printer.redraw(self.lines, &lines);
            self.lines = lines.len();
            return;
        }
        for line in self.changed_lines(layers) {
            printer.note(&line);
        }
    }

    /// A line for each layer whose state changed.
    fn changed_lines(&mut self, layers: &[ImageLayerProgress]) -> Vec<String> {
        let mut news = Vec::new();
        for layer in layers {
            let phase = layer.phase();
            let before = self.phases.insert(layer.digest.clone(), phase);
            if before == Some(phase) || phase == ImageLayerPhase::Waiting {
                continue;
            }
            let size = human::bytes(layer.total_bytes);
            news.push(match phase {
                ImageLayerPhase::Downloading => {
                    format!("{}: downloading {size}", short(&layer.digest))
                }
                phase => format!("{}: {}", short(&layer.digest), word(phase)),
            });
        }
        news
    }
}

/// The active layers, and a summary of the rest.
fn drawing(layers: &[ImageLayerProgress]) -> Vec<String> {
    let is_done = |layer: &&ImageLayerProgress| {
        matches!(
            layer.phase(),
            ImageLayerPhase::Done | ImageLayerPhase::Exists
        )
    };
    if layers.is_empty() {
        return vec!["resolving the image".to_owned()];
    }
    let mut lines: Vec<String> = layers
        .iter()
        .filter(|layer| !is_done(layer) && layer.phase() != ImageLayerPhase::Waiting)
        .take(MOST_LINES)
        .map(line)
        .collect();
    let done = layers.iter().filter(is_done).count();
    lines.push(format!("{done} of {} layers present", layers.len()));
    lines
}

fn line(layer: &ImageLayerProgress) -> String {
    let full = match layer.total_bytes {
        0 => BAR,
        total => (layer.done_bytes.min(total) as u128 * BAR as u128 / u128::from(total)) as usize,
    };
    format!(
        "{}  {:<11}  [{}{}]  {}/{}",
        short(&layer.digest),
        word(layer.phase()),
        "=".repeat(full),
        " ".repeat(BAR - full),
        human::bytes(layer.done_bytes),
        human::bytes(layer.total_bytes)
    )
}

fn word(phase: ImageLayerPhase) -> &'static str {
    match phase {
        ImageLayerPhase::Unspecified | ImageLayerPhase::Waiting => "waiting",
        ImageLayerPhase::Downloading => "downloading",
        ImageLayerPhase::Unpacking => "unpacking",
        ImageLayerPhase::Done => "done",
        ImageLayerPhase::Exists => "already present",
    }
}

/// Twelve digits tell layers apart.
fn short(digest: &str) -> String {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(digit: &str, phase: ImageLayerPhase, done: u64) -> ImageLayerProgress {
        ImageLayerProgress {
            digest: format!("sha256:{}", digit.repeat(64)),
            phase: phase.into(),
            done_bytes: done,
            total_bytes: 10 << 20,
        }
    }

    #[test]
    fn a_terminal_sees_what_is_at_work() {
        use ImageLayerPhase::{Done, Downloading, Exists, Unpacking, Waiting};
        let layers = [
            layer("a", Done, 10 << 20),
            layer("b", Downloading, 5 << 20),
            layer("c", Unpacking, 10 << 20),
            layer("d", Waiting, 0),
            layer("e", Exists, 10 << 20),
        ];
        insta::assert_snapshot!(drawing(&layers).join("\n"), @r"
        bbbbbbbbbbbb  downloading  [============            ]  5MiB/10MiB
        cccccccccccc  unpacking    [========================]  10MiB/10MiB
        2 of 5 layers present
        ");
        let many: Vec<_> = (0..50).map(|_| layer("f", Downloading, 1)).collect();
        assert_eq!(drawing(&many).len(), MOST_LINES + 1);
        assert!(drawing(&many).iter().all(|line| line.len() < 80));
    }

    #[test]
    fn a_pipe_sees_each_step_once() {
        use ImageLayerPhase::{Done, Downloading, Waiting};
        let mut shown = PullProgress::new(false);
        let mut changed_lines = |phase, done| shown.changed_lines(&[layer("a", phase, done)]);
        assert!(changed_lines(Waiting, 0).is_empty());
        assert_eq!(
            changed_lines(Downloading, 1),
            ["aaaaaaaaaaaa: downloading 10MiB"]
        );
        assert!(changed_lines(Downloading, 2).is_empty());
        assert_eq!(changed_lines(Done, 10), ["aaaaaaaaaaaa: done"]);
    }
}
