//! What making the pool larger or smaller would do: the devices, and a
//! sentence on the bytes.

use serde::Serialize;
use strata_api::rest::{DeviceResize, ExpandPlan, Pool, PoolDevice, ShrinkPlan};

use crate::failure::Result;
use crate::output::{self, Format, human};
use crate::session::Session;

/// A plan of the server, in the words of its sentence.
pub(super) trait Plan: Serialize {
    /// The devices that it is about, in their order.
    fn devices(&self) -> &[String];
    /// What it comes to.
    fn sentence(&self) -> String;
}

impl Plan for ExpandPlan {
    fn devices(&self) -> &[String] {
        &self.devices
    }

    fn sentence(&self) -> String {
        let many = human::count(self.devices.len(), "spare");
        let (gained, moved) = (self.gained_bytes, self.moved_bytes);
        let (gained, moving) = (human::bytes(gained), moving(moved));
        let resized = resizing(&self.resized);
        format!("would use {many}{resized}, gain {gained} and {moving}")
    }
}

impl Plan for ShrinkPlan {
    fn devices(&self) -> &[String] {
        &self.devices
    }

    fn sentence(&self) -> String {
        if self.devices.is_empty() && self.resized.is_empty() {
            return "would do nothing: no device can be removed".to_owned();
        }
        let many = human::count(self.devices.len(), "device");
        let (lost, free) = (human::bytes(self.lost_bytes), human::bytes(self.free_bytes));
        let moving = moving(self.moved_bytes);
        let resized = resizing(&self.resized);
        format!("would release {many}{resized} with {lost} and {moving}; {free} would be free")
    }
}

/// The devices that are used by another amount.
fn resizing(resized: &[DeviceResize]) -> String {
    let one = |resize: &DeviceResize| {
        let (from, to) = (
            human::bytes(resize.from_bytes),
            human::bytes(resize.to_bytes),
        );
        format!(", resize {} from {from} to {to}", resize.name)
    };
    resized.iter().map(one).collect()
}

fn moving(bytes: u64) -> String {
    match bytes {
        0 => "move nothing".to_owned(),
        bytes => format!("move {}", human::bytes(bytes)),
    }
}

/// Prints it. `pool` knows more of its devices than their names.
pub(super) fn print(
    session: &mut Session,
    format: Format,
    plan: &impl Plan,
    pool: &Pool,
) -> Result {
    let named = |name: &String| pool.devices.iter().find(|device| device.name == *name);
    let devices: Vec<PoolDevice> = plan.devices().iter().filter_map(named).cloned().collect();
    match format {
        Format::Json | Format::Yaml => return output::document(session, format, plan),
        Format::Name => return output::rows(session, format, &devices, ""),
        Format::Table | Format::Wide => {}
    }
    if !devices.is_empty() {
        output::rows(session, format, &devices, "")?;
    }
    let sentence = format!("{}\n", plan.sentence());
    Ok(session.printer.data(sentence.as_bytes())?)
}
