//! Machines that would be added and removed.

use strata_api::rest::ClusterPlan;

use crate::failure::Result;
use crate::output::{self, Format, human};
use crate::session::Session;
use crate::view::PlannedView;

/// Prints it: a row for each machine, and a sentence.
pub(in crate::commands) fn print(
    session: &mut Session,
    format: Format,
    plan: &ClusterPlan,
) -> Result {
    if matches!(format, Format::Json | Format::Yaml) {
        return output::document(session, format, plan);
    }
    let add = plan.add.iter().map(|one| PlannedView::new("add", one));
    let remove = plan.remove.iter();
    let remove = remove.map(|one| PlannedView::new("remove", one));
    let rows: Vec<_> = add.chain(remove).collect();
    if !rows.is_empty() || format == Format::Name {
        output::rows(session, format, &rows, "")?;
    }
    if format == Format::Name {
        return Ok(());
    }
    let add = human::count(plan.add.len(), "machine");
    let sentence = match (plan.add.len(), plan.remove.len()) {
        (0, 0) => "would change nothing\n".to_owned(),
        (_, 0) => format!("would allocate {add}\n"),
        (0, n) => format!("would release {}\n", human::count(n, "machine")),
        (_, n) => format!("would allocate {add} and release {n}\n"),
    };
    Ok(session.printer.data(sentence.as_bytes())?)
}
