//! The scheduler's rules, parsed from a specification: on every write, so that
//! invalid ones are rejected, and when placement reads the record.

use std::sync::Arc;

use strata_scheduler::{
    Affinity, AffinityMode, Constraint, Domain, GpuDemand, HostPort, Kind, POOL_LABEL, Policy,
    Preference, Rules, Selector, Spread,
};
use strata_types::instance::{
    self, AffinityRule, InstanceKind, InstanceSpec, PolicyName, SpreadRule,
};
use strata_types::pod::Protocol;
use strata_types::{Error, Label, Result};

/// The rules of an instance of this project.
pub(crate) fn placement_rules(project: &Label, spec: &InstanceSpec) -> Result<Arc<Rules>> {
    let asked = &spec.placement;
    let read =
        |field: String, text: &str| constraint(text).map_err(|why| Error::invalid(field, why));
    let mut constraints = Vec::with_capacity(asked.constraints.len());
    for (i, text) in asked.constraints.iter().enumerate() {
        constraints.push(read(format!("placement.constraints[{i}]"), text)?);
    }
    let mut preferences = Vec::with_capacity(asked.preferences.len());
    for (i, wish) in asked.preferences.iter().enumerate() {
        preferences.push(Preference {
            test: read(format!("placement.preferences[{i}].test"), &wish.test)?,
            weight: wish.weight,
        });
    }
    // Data of the pool is where the pool is.
    if !spec.pool_volumes().is_empty() {
        constraints.push(Constraint::Exists(POOL_LABEL.into()));
    }
    let ports = spec.port_mappings()?;
    Ok(Arc::new(Rules {
        project: project.to_string(),
        kind: match spec.kind {
            InstanceKind::Container => Kind::Container,
            InstanceKind::Vm => Kind::Vm,
        },
        labels: spec.labels.clone(),
        constraints,
        preferences,
        affinities: asked.affinity.iter().map(affinity).collect(),
        spreads: asked.spread.iter().map(|rule| spread(rule, spec)).collect(),
        ports: ports
            .iter()
            .map(|port| match port.protocol {
                Protocol::Tcp => HostPort::tcp(port.host_port),
                Protocol::Udp => HostPort::udp(port.host_port),
            })
            .collect(),
        gpus: asked.gpus.as_ref().map(|gpus| GpuDemand {
            count: gpus.count,
            kind: gpus.kind.clone(),
        }),
        policy: asked.policy.map(policy),
    }))
}

fn policy(name: PolicyName) -> Policy {
    match name {
        PolicyName::BinPack => Policy::BinPack,
        PolicyName::Spread => Policy::Spread,
    }
}

fn domain(text: &str) -> Domain {
    match text {
        "node" => Domain::Node,
        label => Domain::Label(label.to_owned()),
    }
}

fn spread(rule: &SpreadRule, spec: &InstanceSpec) -> Spread {
    let of = match rule.of.is_empty() {
        true => spec.labels.clone(),
        false => rule.of.clone(),
    };
    Spread {
        over: domain(&rule.over),
        of: Selector(of),
        weight: rule.weight,
        max_skew: rule.max_skew,
    }
}

fn affinity(rule: &AffinityRule) -> Affinity {
    Affinity {
        to: Selector(rule.to.clone()),
        within: domain(&rule.within),
        mode: match rule.bond {
            Some(instance::Bond::Require) => AffinityMode::Require,
            Some(instance::Bond::Forbid) => AffinityMode::Forbid,
            None => AffinityMode::Prefer(rule.weight),
        },
    }
}

/// Reads `zone=eu`, `zone!=eu`, `zone in (a, b)`, `zone not in (a, b)`, `ssd`,
/// `!ssd`. The label `node` is the node's name.
fn constraint(text: &str) -> Result<Constraint, String> {
    let bad = || {
        let text: String = text.chars().take(80).collect();
        format!(
            "{text:?} is not a test: expected one such as zone=eu, zone!=eu, zone in (a, b), ssd or !ssd"
        )
    };
    let label = |key: &str| match key.trim() {
        "" => Err(bad()),
        key if key.contains(|c: char| c.is_whitespace() || "=!(),".contains(c)) => Err(bad()),
        key if key.len() > 128 => Err(bad()),
        key => Ok(key.to_owned()),
    };
    let list = |text: &str| {
        let inner = text
            .trim()
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'));
        let values: Vec<String> = inner
            .ok_or_else(bad)?
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        match values.iter().any(String::is_empty) {
            true => Err(bad()),
            false => Ok(values),
        }
    };
    if let Some((key, value)) = text.split_once("!=") {
        let (key, value) = (label(key)?, value.trim().to_owned());
        return Ok(match key.as_str() {
            "node" => Constraint::NotNamed(vec![value]),
            _ => Constraint::IsNot(key, value),
        });
    }
    if let Some((key, value)) = text.split_once('=') {
        let (key, value) = (label(key)?, value.trim().to_owned());
        return Ok(match key.as_str() {
            "node" => Constraint::Named(vec![value]),
            _ => Constraint::Is(key, value),
        });
    }
    if let Some((key, values)) = text.split_once(" not in ") {
        let (key, values) = (label(key)?, list(values)?);
        return Ok(match key.as_str() {
            "node" => Constraint::NotNamed(values),
            _ => Constraint::NotIn(key, values),
        });
    }
    if let Some((key, values)) = text.split_once(" in ") {
        let (key, values) = (label(key)?, list(values)?);
        return Ok(match key.as_str() {
            "node" => Constraint::Named(values),
            _ => Constraint::In(key, values),
        });
    }
    match text.trim().strip_prefix('!') {
        Some(key) => Ok(Constraint::Absent(label(key)?)),
        None => Ok(Constraint::Exists(label(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_as_they_are_shown() {
        for text in [
            "zone=eu",
            "zone!=eu",
            "zone in (a, b)",
            "zone not in (a, b)",
            "ssd",
            "!ssd",
            "node in (n1, n2)",
            "node not in (n1)",
        ] {
            assert_eq!(constraint(text).unwrap().to_string(), text);
        }
        assert_eq!(
            constraint("node=n1").unwrap(),
            Constraint::Named(vec!["n1".into()])
        );
        for bad in [
            "",
            "!",
            "=x",
            "a b",
            "zone in ()",
            "zone in a",
            "a,b",
            "!a=b c!",
            " in (a)",
        ] {
            assert!(constraint(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn pool_volume_requires_a_node_with_the_pool() {
        let project: Label = "p".parse().unwrap();
        let with = |kind, uri: &str, volume: &str| {
            let spec = InstanceSpec {
                kind,
                uri: uri.into(),
                volumes: vec![volume.into()],
                ..InstanceSpec::default()
            };
            placement_rules(&project, &spec)
                .unwrap()
                .constraints
                .clone()
        };
        let needed = [Constraint::Exists(POOL_LABEL.into())];
        let (container, vm) = (InstanceKind::Container, InstanceKind::Vm);
        assert_eq!(with(container, "x", "pool=data:/data"), needed);
        assert_eq!(with(vm, "/x.qcow2", "pool=data"), needed);
        assert_eq!(with(container, "x", "data:/data"), []);
    }

    #[test]
    fn invalid_constraint_names_its_field() {
        let mut spec = InstanceSpec {
            uri: "x".into(),
            ..InstanceSpec::default()
        };
        spec.placement.constraints = vec!["ok".into(), "not ok".into()];
        let error = placement_rules(&"p".parse().unwrap(), &spec).unwrap_err();
        assert_eq!(error.field(), Some("placement.constraints[1]"));
    }
}
