//! Health checks.

use std::time::Duration;

use strata_types::Error;
use strata_types::pod::{HealthCheck, Probe};

use crate::strata::v1;
use crate::strata::v1::health_check::Probe as Wire;

pub(super) fn from_wire(check: v1::HealthCheck) -> Result<HealthCheck, Error> {
    let port = |field: &str, port: u32| {
        let why = || Error::invalid(field, format!("is {port}; 1 to 65535 are allowed"));
        u16::try_from(port).map_err(|_| why())
    };
    let probe = match check.probe {
        Some(Wire::Exec(exec)) => Probe::Exec(exec.command),
        Some(Wire::Http(http)) => Probe::Http {
            port: port("pod.health.http.port", http.port)?,
            path: match http.path.as_str() {
                "" => "/".to_owned(),
                _ => http.path,
            },
        },
        Some(Wire::Tcp(tcp)) => Probe::Tcp {
            port: port("pod.health.tcp.port", tcp.port)?,
        },
        None => {
            return Err(Error::invalid(
                "pod.health",
                "has no probe: exec, http or tcp",
            ));
        }
    };
    let usual = HealthCheck::with(probe);
    let ms = |given: Option<u32>, usual: Duration| {
        given.map_or(usual, |ms| Duration::from_millis(ms.into()))
    };
    let check = HealthCheck {
        interval: ms(check.interval_ms, usual.interval),
        timeout: ms(check.timeout_ms, usual.timeout),
        retries: check.retries.unwrap_or(usual.retries),
        start_period: ms(check.start_period_ms, usual.start_period),
        ..usual
    };
    check.check("pod.health")?;
    Ok(check)
}

pub(super) fn to_wire(check: &HealthCheck) -> v1::HealthCheck {
    let ms = |time: Duration| u32::try_from(time.as_millis()).ok();
    v1::HealthCheck {
        probe: Some(match &check.probe {
            Probe::Exec(command) => Wire::Exec(v1::ExecProbe {
                command: command.clone(),
            }),
            Probe::Http { port, path } => Wire::Http(v1::HttpProbe {
                port: (*port).into(),
                path: path.clone(),
            }),
            Probe::Tcp { port } => Wire::Tcp(v1::TcpProbe {
                port: (*port).into(),
            }),
        }),
        interval_ms: ms(check.interval),
        timeout_ms: ms(check.timeout),
        retries: Some(check.retries),
        start_period_ms: ms(check.start_period),
    }
}
