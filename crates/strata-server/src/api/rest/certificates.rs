//! `/certificate/`: the certificates that were issued, and their revocation.

use axum::extract::State;
use strata_api::rest::{self, RevokeRequest, RevokeResult};
use strata_identity::Name;
use strata_identity::policy::ADMIN;
use strata_types::{Error, Role};

use super::extract::{Auth, Json, Parameters, ResourceId};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::{RestState, answer, json};
use crate::core::{Certificate, Core, Page, Revoke};

/// SHA-256 in hexadecimal.
const KEY_LENGTH: usize = 64;

pub(super) fn routes() -> Noun {
    Noun::new("certificate", "Issued certificates and their revocation.")
        .id("Serial number of the certificate.")
        .routes([
            route::get("/certificate", ADMIN, list)
                .named("listCertificates", "List certificates")
                .about("Certificates issued by this CA that have not expired.")
                .returns_pages::<rest::Certificate>(),
            route::post("/certificate/revoke", ADMIN, revoke)
                .named("revokeCertificates", "Revoke certificates")
                .about(
                    "The certificates are rejected from now on, and connections made with them \
                    are closed.",
                )
                .body::<RevokeRequest>()
                .returns::<RevokeResult>()
                .may_be_unavailable(),
            route::get("/certificate/{id}", ADMIN, show)
                .named("getCertificate", "Get a certificate")
                .about("Subject, role, validity and revocation state of one certificate.")
                .returns::<rest::Certificate>(),
        ])
}

async fn list(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset"])?;
    principal.require_all_projects()?;
    let (limit, offset) = parameters.pagination()?;
    let page = Page::of(state.core.certificates().list().into_iter(), offset, limit);
    let all = page.items.iter().map(|one| render(&state.core, one));
    answer::list(page.total, all)
}

async fn show(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(serial): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    principal.require_all_projects()?;
    let found = state.core.certificates().get(&serial)?;
    answer::json(&render(&state.core, &found))
}

/// From the moment of the answer nothing that was revoked is taken, and what it
/// had open is closed.
async fn revoke(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: RevokeRequest = json::parse(&body)?;
    let reason = asked.reason.clone().unwrap_or_default();
    let what = read(asked)?;
    let revoked = state
        .core
        .certificates()
        .revoke(&principal, &what, &reason)
        .await?;
    tracing::info!(?what, by = principal.name, revoked, "certificates revoked");
    answer::json(&RevokeResult {
        certificates: revoked,
    })
}

fn read(asked: RevokeRequest) -> Result<Revoke, Error> {
    let hexadecimal = |field: &str, text: String| {
        let digits = text.bytes().all(|b| b.is_ascii_hexdigit());
        if text.is_empty() || text.len() > KEY_LENGTH || !digits {
            let why = "must be hexadecimal digits, 64 at most";
            return Err(Error::invalid(field, why));
        }
        Ok(text.to_ascii_lowercase())
    };
    match asked {
        RevokeRequest {
            serial: Some(serial),
            key: None,
            name: None,
            role: None,
            ..
        } => hexadecimal("serial", serial).map(Revoke::Serial),
        RevokeRequest {
            serial: None,
            key: Some(key),
            name: None,
            role: None,
            ..
        } => {
            let key = hexadecimal("key", key)?;
            match key.len() {
                KEY_LENGTH => Ok(Revoke::Key(key)),
                _ => Err(Error::invalid("key", "must be 64 hexadecimal digits")),
            }
        }
        RevokeRequest {
            serial: None,
            key: None,
            name: Some(name),
            role: Some(role),
            ..
        } => {
            let name: Name = name
                .parse()
                .map_err(|why| Error::invalid("name", format!("{why}")))?;
            let role: Role = role.parse().map_err(|_| {
                Error::invalid("role", "must be one of admin, operator, viewer, node")
            })?;
            Ok(Revoke::Name(name, role))
        }
        _ => Err(Error::invalid(
            "serial",
            "one of these is to be given: serial, key, name with role",
        )),
    }
}

fn render(core: &Core, one: &Certificate) -> rest::Certificate {
    let revocation = core.certificates().revocation_of(&one.id());
    let revocation = revocation.as_ref();
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    rest::Certificate {
        serial: one.serial.clone(),
        name: one.name.to_string(),
        role: one.role.to_string(),
        key: one.key.clone(),
        issued_at: one.issued_at.to_string(),
        expires_at: one.expires_at.to_string(),
        issued_by: one.issued_by.clone(),
        parent: one.parent.clone(),
        revoked: revocation.is_some(),
        revoked_at: revocation.map(|record| record.revoked_at.to_string()),
        revoked_by: revocation.map(|record| record.revoked_by.clone()),
        reason: revocation.and_then(|record| text(&record.reason)),
    }
}
