//! A region that is simulated: the part of MAAS's API 2.0 that the driver uses,
//! with forms, statuses and texts as MAAS has them, and answers that get lost.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use super::served::{CannedResponse, RecordedRequest, Served, json as answer, text};

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is done, and the answer is lost.
    Lost,
    /// MAAS is just being restarted.
    Busy,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedMachine {
    pub(crate) id: &'static str,
    pub(crate) tags: Vec<&'static str>,
    pub(crate) status: &'static str,
    pub(crate) message: &'static str,
    pub(crate) owner: Option<&'static str>,
    pub(crate) agent: String,
    pub(crate) data: BTreeMap<String, String>,
    pub(crate) on: bool,
    /// The forms of all deployments.
    pub(crate) deployed: Vec<BTreeMap<String, String>>,
    pub(crate) released: Vec<BTreeMap<String, String>>,
    /// How many polls a release takes.
    pub(crate) slow: u32,
}

#[derive(Default)]
pub(crate) struct SimState {
    pub(crate) machines: Vec<SimulatedMachine>,
    pub(crate) faults: Vec<(&'static str, Fault)>,
    /// Takes `agent_name` for nothing.
    pub(crate) deaf: bool,
    nonces: HashSet<String>,
}

#[derive(Clone, Default)]
pub(crate) struct Region(Arc<Mutex<SimState>>);

impl Region {
    pub(crate) fn new(machines: &[(&'static str, &[&'static str])]) -> Self {
        let this = Self::default();
        for (id, tags) in machines {
            this.state().machines.push(SimulatedMachine {
                id,
                tags: tags.to_vec(),
                status: "Ready",
                ..SimulatedMachine::default()
            });
        }
        this
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SimState> {
        self.0.lock().unwrap()
    }

    pub(crate) fn set(&self, id: &str, change: impl FnOnce(&mut SimulatedMachine)) {
        let mut state = self.state();
        change(
            state
                .machines
                .iter_mut()
                .find(|machine| machine.id == id)
                .unwrap(),
        );
    }

    pub(crate) fn get(&self, id: &str) -> SimulatedMachine {
        let state = self.state();
        state
            .machines
            .iter()
            .find(|machine| machine.id == id)
            .unwrap()
            .clone()
    }

    pub(crate) fn fail(&self, operation: &'static str, fault: Fault) {
        self.state().faults.push((operation, fault));
    }

    pub(crate) async fn serve(&self) -> Served {
        let this = self.clone();
        Served::new(move |asked| this.state().answer(asked)).await
    }
}

/// `a=b%20c&d=e`.
fn form(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let mut out = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                b'%' => {
                    let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap()
                }
                byte => byte,
            });
        }
        String::from_utf8(out).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

impl SimState {
    fn answer(&mut self, asked: &RecordedRequest) -> CannedResponse {
        if let Err(why) = self.check(asked) {
            return text(401, &format!("Authorization Error: {why}"));
        }
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let (query, body) = (form(query), form(&asked.body));
        let path = path.strip_prefix("/MAAS/api/2.0/").unwrap();
        let operation = query.get("op").map_or("", String::as_str);
        let fault = self.faults.iter().position(|(name, _)| *name == operation);
        let fault = fault.map(|at| self.faults.remove(at).1);
        if fault == Some(Fault::Busy) {
            return text(503, "The region is being restarted");
        }
        let answered = match (&*asked.method, path, operation) {
            ("GET", "machines/", "") => self.list(query.get("agent_name")),
            ("POST", "machines/", "allocate") => self.allocate(&body),
            (method, path, operation) => {
                let id = path.trim_start_matches("machines/").trim_end_matches('/');
                let Some(machine) = self.machines.iter_mut().find(|known| known.id == id) else {
                    return text(404, "No Machine matches the given query.");
                };
                match (method, operation) {
                    ("GET", "") => answer(200, &shown(machine)),
                    ("POST", operation) => operate(machine, operation, &body),
                    _ => text(405, "Method Not Allowed"),
                }
            }
        };
        if fault == Some(Fault::Lost) {
            None
        } else {
            answered
        }
    }

    /// OAuth 1.0, PLAINTEXT, each nonce once.
    fn check(&mut self, asked: &RecordedRequest) -> Result<(), String> {
        let header = asked.header("authorization");
        let fields = header.strip_prefix("OAuth ").ok_or("no OAuth")?;
        let fields: BTreeMap<&str, &str> = fields
            .split(", ")
            .filter_map(|field| field.split_once('='))
            .map(|(name, value)| (name, value.trim_matches('"')))
            .collect();
        for (name, wanted) in [
            ("oauth_version", "1.0"),
            ("oauth_signature_method", "PLAINTEXT"),
            ("oauth_consumer_key", "con"),
            ("oauth_token", "tok"),
            ("oauth_signature", "%26sec"),
        ] {
            if fields.get(name) != Some(&wanted) {
                return Err(format!("{name} is {:?}", fields.get(name)));
            }
        }
        let stamp: u64 = fields["oauth_timestamp"].parse().map_err(|_| "no time")?;
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        if now.abs_diff(stamp) > 300 || !self.nonces.insert(fields["oauth_nonce"].to_owned()) {
            return Err("an old time or nonce".into());
        }
        let kind = asked.header("content-type");
        if asked.method == "POST" && kind != "application/x-www-form-urlencoded" {
            return Err(format!("a form, not {kind}"));
        }
        Ok(())
    }

    fn list(&mut self, agent: Option<&String>) -> CannedResponse {
        let deaf = self.deaf;
        let found = self
            .machines
            .iter_mut()
            .filter(|machine| deaf || agent.is_none_or(|agent| machine.agent == *agent));
        let found = found.map(|machine| {
            if machine.status == "Disk erasing" {
                machine.slow = machine.slow.saturating_sub(1);
                if machine.slow == 0 {
                    free(machine);
                }
            }
            shown(machine)
        });
        let found: Vec<Value> = found.collect();
        answer(200, &found.into())
    }

    fn allocate(&mut self, body: &BTreeMap<String, String>) -> CannedResponse {
        let fits = |machine: &&mut SimulatedMachine| {
            let id = body.get("system_id").is_none_or(|id| machine.id == id);
            let tag = body
                .get("tags")
                .is_none_or(|tag| machine.tags.contains(&&**tag));
            machine.status == "Ready" && id && tag
        };
        let Some(machine) = self.machines.iter_mut().find(fits) else {
            return text(
                409,
                "No machine matching the given constraints could be found.",
            );
        };
        (machine.status, machine.owner) = ("Allocated", Some("strata"));
        machine.agent = body["agent_name"].clone();
        let mut shown = shown(machine);
        shown["constraints_by_type"] = json!({});
        answer(200, &shown)
    }
}

fn free(machine: &mut SimulatedMachine) {
    (machine.status, machine.owner, machine.on) = ("Ready", None, false);
    machine.agent.clear();
    machine.data.clear();
}

fn operate(
    machine: &mut SimulatedMachine,
    operation: &str,
    body: &BTreeMap<String, String>,
) -> CannedResponse {
    if machine.owner != Some("strata") {
        return text(403, "This machine is not allocated to you.");
    }
    match operation {
        "set_owner_data" => machine.data.extend(body.clone()),
        "deploy" if machine.status != "Allocated" => {
            return text(
                409,
                &format!("Can't deploy a machine that is in {}", machine.status),
            );
        }
        "deploy" => {
            machine.deployed.push(body.clone());
            (machine.status, machine.on) = ("Deploying", true);
        }
        "release" => {
            machine.released.push(body.clone());
            match body.get("erase").map(String::as_str) {
                Some("true") => machine.status = "Disk erasing",
                _ => free(machine),
            }
        }
        "power_on" => machine.on = true,
        "power_off" => {
            assert_eq!(body["stop_mode"], "hard");
            machine.on = false;
        }
        _ => {
            return text(
                400,
                &format!("Unrecognised signature: method=POST op={operation}"),
            );
        }
    }
    answer(200, &shown(machine))
}

/// A machine as MAAS shows it, the larger lists left out.
fn shown(machine: &SimulatedMachine) -> Value {
    json!({
        "system_id": machine.id,
        "hostname": format!("host-{}", machine.id),
        "fqdn": format!("host-{}.maas", machine.id),
        "status": 6,
        "status_name": machine.status,
        "status_message": machine.message,
        "power_state": if machine.on { "on" } else { "off" },
        "power_type": "ipmi",
        "cpu_count": 8,
        "memory": 16384,
        "storage": 512_110.190_592,
        "ip_addresses": if machine.on { json!(["10.1.0.7", "fd00::7"]) } else { json!(null) },
        "owner": machine.owner,
        "owner_data": machine.data,
        "tag_names": machine.tags,
        "distro_series": "",
        "zone": { "id": 1, "name": "default" },
        "interface_set": [],
        "resource_uri": format!("/MAAS/api/2.0/machines/{}/", machine.id),
    })
}
