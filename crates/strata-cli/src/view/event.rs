//! Events as they are printed: a line of its own, since events
//! come one after the other.

use strata_api::rest::Event;

use super::time;

/// Control characters are removed: remote text must not control the terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The line for people.
pub(crate) fn event_line(event: &Event) -> String {
    let what = match &event.project {
        Some(project) if event.kind != "project" => {
            format!("{}/{project}/{}", event.kind, event.name)
        }
        _ => format!("{}/{}", event.kind, event.name),
    };
    let at = time(&event.at).map_or_else(|| plain(&event.at), |at| format!("{at:.0}"));
    let times = match event.count {
        Some(count) => format!(" ({count} times)"),
        None => String::new(),
    };
    let (what, message) = (plain(&what), plain(&event.message));
    format!("{at}  {what:<24}  {message}{times}\n")
}
