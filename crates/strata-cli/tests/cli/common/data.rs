//! The cells, logs and tokens of the fake node.

use strata_api::strata::v1::{
    CellInfo, CellNetwork, CellOptions, CellState, CellUsage, CpuLimit, ExecutableInfo,
    ExecutableState, LogChannel, LogLine, MemoryLimit, Role, TokenInfo, TokenKind,
};

/// When every test happens.
pub const NOW: &str = "2026-01-31T12:00:00Z";
pub const NOW_MS: i64 = 1_769_860_800_000;

pub fn cells() -> Vec<CellInfo> {
    let main = executable("web", "main", "nginx -g 'daemon off;'", 4711);
    let job = ExecutableInfo {
        state: ExecutableState::Exited.into(),
        exit_code: Some(3),
        reason: "exit 3".into(),
        ended_at_ms: NOW_MS - 5_000,
        ..executable("web", "job", "sh -c 'exit 3'", 4712)
    };
    vec![
        CellInfo {
            state: CellState::Dead.into(),
            reason: "its init ended".into(),
            init_pid: 0,
            usage: None,
            ..cell("batch", 2 * 86_400_000)
        },
        CellInfo {
            options: Some(CellOptions {
                cpu: Some(CpuLimit {
                    quota_us: Some(150_000),
                    period_us: Some(100_000),
                    cpuset: "0-1".into(),
                }),
                memory: Some(MemoryLimit {
                    max: Some(64 << 20),
                    ..Default::default()
                }),
                pids_max: Some(100),
                ..Default::default()
            }),
            executables: vec![main, job],
            ..cell("web", 192_000)
        },
        CellInfo {
            options: Some(CellOptions {
                network: CellNetwork::Isolated.into(),
                ..Default::default()
            }),
            ..cell("web/cache", 9_000)
        },
    ]
}

fn cell(name: &str, age_ms: i64) -> CellInfo {
    CellInfo {
        name: name.into(),
        state: CellState::Ready.into(),
        cpu_shares: 1024,
        init_pid: 4700,
        allocated_at_ms: NOW_MS - age_ms,
        usage: Some(CellUsage {
            cpu_usec: 1_230_000,
            memory_bytes: 12 << 20,
            memory_peak_bytes: 20 << 20,
            pids: 3,
            io_read_bytes: 4096,
            io_write_bytes: 1 << 20,
        }),
        ..Default::default()
    }
}

pub fn executable(cell: &str, name: &str, command: &str, pid: i64) -> ExecutableInfo {
    ExecutableInfo {
        name: name.into(),
        cell_name: cell.into(),
        command: command.into(),
        state: ExecutableState::Running.into(),
        process_id: pid,
        started_at_ms: NOW_MS - 60_000,
        cpu_user_usec: 10_000,
        cpu_system_usec: 5_000,
        memory_peak_bytes: 3 << 20,
        ..Default::default()
    }
}

/// A line of `main`, written so many milliseconds after the day began.
pub fn line(channel: LogChannel, text: &[u8], after_ms: i64) -> LogLine {
    LogLine {
        channel: channel.into(),
        line: text.to_vec().into(),
        written_at_ms: NOW_MS + after_ms,
        lost_bytes: 0,
        is_gap: false,
    }
}

pub fn logs() -> Vec<(&'static str, LogLine)> {
    use LogChannel::{Stderr, Stdout};
    let mut gap = line(Stdout, b"after a gap", 5);
    gap.lost_bytes = 2048;
    vec![
        ("main", line(Stdout, b"first", 1)),
        ("main", line(Stderr, b"a complaint", 2)),
        ("main", line(Stdout, b"raw \xff bytes", 4)),
        ("main", gap),
        ("job", line(Stdout, b"job in between", 3)),
    ]
}

pub fn tokens() -> Vec<TokenInfo> {
    let now = NOW_MS / 1000;
    let token = |id: &str, name: &str, kind: TokenKind, role: Role, ttl: i64| TokenInfo {
        id: id.into(),
        name: name.into(),
        kind: kind.into(),
        role: role.into(),
        created_at: now - 3600,
        expires_at: now + ttl,
        projects: Vec::new(),
    };
    vec![
        token(
            "0192f0c1",
            "ci",
            TokenKind::Api,
            Role::Operator,
            30 * 86_400,
        ),
        token(
            "0192f0c2",
            "rack1-7",
            TokenKind::Join,
            Role::Unspecified,
            600,
        ),
    ]
}
