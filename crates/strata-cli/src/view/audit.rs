//! A line of the audit log as it is printed. JSON and YAML are the line's own.

use std::time::Duration;

use jiff::Timestamp;
use strata_audit::{Decision, Entry, Outcome, SessionRecord};

use super::{or_dash, time};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

impl Show for Entry {
    fn reference(&self) -> String {
        format!("audit/{}", self.number)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NUMBER"),
            Column::new("PRINCIPAL"),
            Column::new("OUTCOME"),
            Column::text("CALL"),
        ];
        if wide {
            columns.extend([
                Column::text("OBJECT"),
                Column::new("PROJECT"),
                Column::new("ROLE"),
                Column::new("CREDENTIAL"),
                Column::new("SOURCE"),
                Column::text("REASON"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let decision = &self.decision;
        let style = match decision.outcome {
            Outcome::Allowed | Outcome::Started | Outcome::Ended => Style::Good,
            Outcome::Denied | Outcome::Unauthenticated => Style::Bad,
        };
        let mut row = vec![
            TableCell::from(&self.number.to_string()),
            or_dash(decision.principal.clone()).into(),
            TableCell::styled(decision.outcome.as_str(), style),
            TableCell::from(&what(decision)),
        ];
        if wide {
            let printable = |text: Option<&str>| or_dash(text.map(printable));
            row.extend([
                printable(decision.about()).into(),
                printable(decision.project_of_object()).into(),
                or_dash(decision.role.clone()).into(),
                or_dash(decision.credential.clone()).into(),
                or_dash(decision.source.clone()).into(),
                or_dash(decision.reason.clone()).into(),
            ]);
        }
        row.push(human::age(time(&self.time), now).into());
        row
    }
}

/// One line as it comes, without a table around it.
pub(crate) fn audit_line(entry: &Entry) -> String {
    let decision = &entry.decision;
    format!(
        "{} {} {} {} {}\n",
        entry.time,
        or_dash(decision.principal.clone()),
        or_dash(decision.source.clone()),
        decision.outcome.as_str(),
        what(decision)
    )
}

/// The call, or what was run and how it ended: all of it printable, for it is
/// the caller who chose the words.
fn what(decision: &Decision) -> String {
    let Some(session) = &decision.session else {
        return printable(&decision.call);
    };
    let subject = format!("{} {}", session.kind.as_str(), session.object);
    let text = match (decision.outcome, session.exit_code, session.signal) {
        (Outcome::Started, ..) if session.command.is_empty() => subject,
        (Outcome::Started, ..) => {
            let words: Vec<_> = session.command.iter().map(|word| quoted(word)).collect();
            let more = if session.truncated { " …" } else { "" };
            format!("{subject}: {}{more}", words.join(" "))
        }
        (_, Some(code), _) => format!("{subject}: exit {code}{}", lasted(session)),
        (_, None, Some(signal)) => format!("{subject}: signal {signal}{}", lasted(session)),
        (_, None, None) => {
            let reason = decision.reason.as_deref().unwrap_or("no exit");
            format!("{subject}: {reason}{}", lasted(session))
        }
    };
    printable(&text)
}

fn lasted(session: &SessionRecord) -> String {
    let duration = session.duration_ms.map(Duration::from_millis);
    duration.map_or(String::new(), |time| format!(" after {time:.1?}"))
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("{word:?}"),
    }
}

fn printable(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use strata_audit::SessionKind;

    use super::*;

    #[test]
    fn hostile_command_is_one_printable_line() {
        let command = ["sh", "-c", "\u{1b}]0;owned\u{7}\n\u{9b}2J\r\u{202e}x"];
        let decision = Decision {
            principal: Some("ann".into()),
            role: None,
            credential: None,
            projects: Vec::new(),
            source: None,
            call: "/runtime.Pods/Exec".into(),
            object: None,
            project: None,
            outcome: Outcome::Started,
            reason: None,
            session: Some(Box::new(SessionRecord {
                id: "1".into(),
                kind: SessionKind::Exec,
                object: "pod/web".into(),
                project: None,
                command: command.map(str::to_owned).to_vec(),
                truncated: false,
                exit_code: None,
                signal: None,
                duration_ms: None,
                bytes_in: None,
                bytes_out: None,
            })),
        };
        let text = what(&decision);
        assert!(text.starts_with("exec pod/web: sh -c \""), "{text}");
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
}
