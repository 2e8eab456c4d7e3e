//! `/ca/`: the roots of the CA, and the steps of its rotation. Each step is
//! done when it is answered, and can be requested again.

use std::sync::Arc;

use axum::extract::State;
use strata_api::rest::{CaRoot, CaStepRequest, CertificateAuthority, RetireCaRequest};
use strata_identity::policy::ADMIN;
use strata_identity::{Ca, CaError, RootInfo, RotationPhase};
use strata_types::Error;

use super::extract::{Auth, Json, Parameters};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::{RestState, answer, json};
use crate::core::{Core, Principal};

/// The most serials that are listed.
const MAX_LISTED: usize = 1000;

pub(super) fn routes() -> Noun {
    Noun::new("ca", "The certificate authority and its rotation.").routes([
        route::get("/ca", ADMIN, show)
            .named("getCa", "Get the certificate authority")
            .about(
                "The roots of the CA, and the certificates that still depend on the old one \
                    during a rotation.",
            )
            .returns::<CertificateAuthority>(),
        route::post("/ca/rotate", ADMIN, rotate)
            .named("rotateCa", "Start a CA rotation")
            .about(
                "Creates a second root. It is trusted immediately and signs nothing until \
                    it is activated.",
            )
            .body::<CaStepRequest>()
            .returns::<CertificateAuthority>()
            .may_be_unavailable(),
        route::post("/ca/activate", ADMIN, activate)
            .named("activateCa", "Activate the new CA root")
            .about(
                "The second root signs from now on. Nodes renew their certificates \
                    automatically.",
            )
            .body::<CaStepRequest>()
            .returns::<CertificateAuthority>()
            .may_be_unavailable(),
        route::post("/ca/retire", ADMIN, retire)
            .named("retireCa", "Retire the old CA root")
            .about(
                "The first root is no longer trusted, its key is destroyed, and connections \
                    made with its certificates are closed.",
            )
            .body::<RetireCaRequest>()
            .returns::<CertificateAuthority>()
            .may_be_unavailable(),
    ])
}

async fn show(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    principal.require_all_projects()?;
    answer::json(&render(&state.core, &*ca(&state)?))
}

/// A second root is made, and trusted from now on.
async fn rotate(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let CaStepRequest {} = json::parse(&body)?;
    step(&state, &principal, "introduced", |ca| {
        ca.introduce().map(drop)
    })
    .await
}

/// The second root signs from now on.
async fn activate(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let CaStepRequest {} = json::parse(&body)?;
    step(&state, &principal, "activated", |ca| {
        ca.activate().map(drop)
    })
    .await
}

/// The first root is trusted no more, and its key is destroyed.
async fn retire(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let RetireCaRequest { force } = json::parse(&body)?;
    let ca = ca(&state)?;
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
    step(&state, &principal, "retired", Ca::retire).await
}

fn ca(state: &RestState) -> Result<Arc<Ca>, Error> {
    let none = || Error::unavailable("this server has no CA");
    state.ca.clone().ok_or_else(none)
}

async fn step(
    state: &RestState,
    principal: &Principal,
    done: &str,
    step: impl FnOnce(&Ca) -> Result<(), CaError> + Send + 'static,
) -> Answer {
    principal.require_all_projects()?;
    if !state.core.settings().alone {
        let why = "servers that share a store have copies of one CA";
        let hint = "rotate while one server runs, and copy DIR/ca to the others";
        return Err(Error::wrong_state(why).with_hint(hint).into());
    }
    let ca = ca(state)?;
    let stepping = ca.clone();
    // What waits for the disk does not hold up other requests.
    let stepped = tokio::task::spawn_blocking(move || step(&stepping)).await;
    let stepped = stepped.map_err(|error| Error::internal(error.to_string()))?;
    stepped.map_err(Error::from)?;
    tracing::info!(by = principal.name, step = done, "the CA is rotated");
    answer::json(&render(&state.core, &ca))
}

fn render(core: &Core, ca: &Ca) -> CertificateAuthority {
    let rotation = ca.rotation();
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
        certificates: serials.take(MAX_LISTED).collect(),
        nodes: left.nodes,
        pem: ca.ca_pem(),
    }
}

fn root(root: &RootInfo) -> CaRoot {
    CaRoot {
        fingerprint: root.fingerprint.to_string(),
        expires_at: root.validity.not_after.to_string(),
    }
}
