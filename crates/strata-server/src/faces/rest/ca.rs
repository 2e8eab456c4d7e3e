//! `/ca/`: the roots of the CA, and the steps of its rotation. Each step is
//! done when it is answered, and can be asked for again.

use std::sync::Arc;

use axum::extract::State;
use strata_api::rest::{CaRoot, CaStepRequest, CertificateAuthority, RetireCaRequest};
use strata_identity::{Authority, AuthorityError, RootInfo, RotationPhase};
use strata_types::Error;

use super::extract::{Asker, Json, Parameters};
use super::refusal::Answer;
use super::{RestState, answer, json};
use crate::core::{Core, Who};

/// The most serials that are listed.
const MOST_LISTED: usize = 1000;

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    who.everywhere()?;
    answer::json(&tell(&state.core, &*authority(&state)?))
}

/// A second root is made, and trusted from now on.
pub(super) async fn rotate(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let CaStepRequest {} = json::parse(&body)?;
    step(&state, &who, "introduced", |authority| {
        authority.introduce().map(drop)
    })
    .await
}

/// The second root signs from now on.
pub(super) async fn activate(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let CaStepRequest {} = json::parse(&body)?;
    step(&state, &who, "activated", |authority| {
        authority.activate().map(drop)
    })
    .await
}

/// The first root is trusted no more, and its key is destroyed.
pub(super) async fn retire(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let RetireCaRequest { force } = json::parse(&body)?;
    let ca = authority(&state)?;
    let left = state.core.dependents_of_other_roots(&ca.issuer());
    if ca.rotation().phase == RotationPhase::Issuing && !force && !left.is_empty() {
        let why = format!(
            "{} nodes and {} certificates still depend on the old root",
            left.nodes.len(),
            left.certificates.len()
        );
        let hint = "see which: strata ca show; nodes renew by themselves, people by \
            `strata certificate renew`; --force locks them out";
        return Err(Error::wrong_state(why).with_hint(hint).into());
    }
    step(&state, &who, "retired", Authority::retire).await
}

fn authority(state: &RestState) -> Result<Arc<Authority>, Error> {
    let none = || Error::unavailable("this server has no CA");
    state.authority.clone().ok_or_else(none)
}

async fn step(
    state: &RestState,
    who: &Who,
    done: &str,
    step: impl FnOnce(&Authority) -> Result<(), AuthorityError> + Send + 'static,
) -> Answer {
    who.everywhere()?;
    if !state.core.settings().alone {
        let why = "servers that share a store have copies of one CA";
        let hint = "rotate while one server runs, and copy DIR/ca to the others";
        return Err(Error::wrong_state(why).with_hint(hint).into());
    }
    let authority = authority(state)?;
    let stepping = authority.clone();
    // What waits for the disk does not hold up other requests.
    let stepped = tokio::task::spawn_blocking(move || step(&stepping)).await;
    let stepped = stepped.map_err(|error| Error::internal(error.to_string()))?;
    stepped.map_err(Error::from)?;
    tracing::info!(by = who.name, step = done, "the CA is rotated");
    answer::json(&tell(&state.core, &authority))
}

fn tell(core: &Core, authority: &Authority) -> CertificateAuthority {
    let rotation = authority.rotation();
    let left = match rotation.phase {
        RotationPhase::Stable => Default::default(),
        RotationPhase::Introduced | RotationPhase::Issuing => {
            let next = rotation.next.as_ref().map(|next| next.id.as_str());
            core.dependents_of_other_roots(next.unwrap_or_default())
        }
    };
    let serials = left.certificates.iter().map(|one| one.serial.clone());
    CertificateAuthority {
        phase: rotation.phase.as_str().to_owned(),
        current: root(&rotation.current),
        next: rotation.next.as_ref().map(root),
        remaining: left.nodes.len() + left.certificates.len(),
        certificates: serials.take(MOST_LISTED).collect(),
        nodes: left.nodes,
        pem: authority.ca_pem(),
    }
}

fn root(root: &RootInfo) -> CaRoot {
    CaRoot {
        fingerprint: root.fingerprint.to_string(),
        expires_at: root.validity.not_after.to_string(),
    }
}
