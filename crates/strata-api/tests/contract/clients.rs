//! A client generated from the published documents alone. Its messages are
//! written out here by hand, so they know none of our fields: what it sends
//! is understood, and what we add to an answer does not disturb it.

use prost::Message;
use strata_api::runtime;
use strata_api::strata::v1::{CellOptions, ExecutableOptions, MemoryLimit};
use strata_api::{kaas, scheduler};

#[derive(Clone, PartialEq, Message)]
struct OldCell {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    cpu_shares: u64,
}

#[derive(Clone, PartialEq, Message)]
struct OldAllocateCellRequest {
    #[prost(message, optional, tag = "1")]
    cell: Option<OldCell>,
}

#[derive(Clone, PartialEq, Message)]
struct OldExecutable {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    command: String,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "4")]
    cell_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldStopCellRequest {
    #[prost(string, tag = "1")]
    cell_name: String,
    #[prost(string, tag = "2")]
    executable_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldStartCellResponse {}

#[derive(Clone, PartialEq, Message)]
struct OldPort {
    #[prost(int32, tag = "1")]
    source: i32,
    #[prost(int32, tag = "2")]
    destination: i32,
}

#[derive(Clone, PartialEq, Message)]
struct OldInstance {
    #[prost(string, tag = "1")]
    id: String,
    // An enum on the wire; an open one, so a plain number says it all.
    #[prost(int32, tag = "3")]
    r#type: i32,
    #[prost(int32, tag = "4")]
    status: i32,
    #[prost(string, repeated, tag = "6")]
    environnement: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    ports: Vec<OldPort>,
    #[prost(string, tag = "9")]
    ip: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldMachineStatus {
    #[prost(string, tag = "2")]
    k8s_version: String,
    #[prost(string, tag = "4")]
    maas_system_id: String,
    #[prost(string, tag = "7")]
    maas_ip_addr: String,
}

/// The same bytes, read as the other side reads them.
fn as_read_by_the_other<T: Message + Default>(sent: &impl Message) -> T {
    T::decode(&*sent.encode_to_vec()).expect("the other side understands")
}

#[test]
fn a_request_of_an_old_client_is_understood_and_asks_for_nothing_more() {
    let sent = OldAllocateCellRequest {
        cell: Some(OldCell {
            name: "a/b".to_owned(),
            cpu_shares: 262_144,
        }),
    };
    let got: runtime::AllocateCellRequest = as_read_by_the_other(&sent);
    let wanted = runtime::Cell {
        name: "a/b".to_owned(),
        cpu_shares: 262_144,
        options: None,
    };
    assert_eq!(got.cell, Some(wanted));

    let sent = OldStopCellRequest {
        cell_name: "web".to_owned(),
        executable_name: "nginx".to_owned(),
    };
    let got: runtime::StopCellRequest = as_read_by_the_other(&sent);
    assert_eq!((&*got.cell_name, &*got.executable_name), ("web", "nginx"));
    assert_eq!(got.grace_ms, None);
}

#[test]
fn an_instance_of_an_old_client_keeps_every_field() {
    let sent = OldInstance {
        id: "i-1".to_owned(),
        r#type: 0,
        status: 6,
        environnement: vec!["A=1".to_owned(), "B=".to_owned()],
        ports: vec![OldPort {
            source: 8080,
            destination: 80,
        }],
        ip: "10.42.0.7".to_owned(),
    };
    let got: scheduler::Instance = as_read_by_the_other(&sent);
    assert_eq!(got.r#type(), scheduler::Type::Container);
    assert_eq!(got.status(), scheduler::Status::Failed);
    assert_eq!(got.environnement, sent.environnement);
    assert_eq!((got.ports[0].source, got.ports[0].destination), (8080, 80));
    assert_eq!(as_read_by_the_other::<OldInstance>(&got), sent);
}

#[test]
fn an_old_client_does_not_notice_our_fields() {
    let sent = runtime::Cell {
        name: "web".to_owned(),
        cpu_shares: 512,
        options: Some(CellOptions {
            memory: Some(MemoryLimit {
                max: Some(64 << 20),
                ..MemoryLimit::default()
            }),
            pids_max: Some(32),
            ..CellOptions::default()
        }),
    };
    let got: OldCell = as_read_by_the_other(&sent);
    assert_eq!((&*got.name, got.cpu_shares), ("web", 512));

    let sent = runtime::Executable {
        name: "nginx".to_owned(),
        command: "nginx -g 'daemon off;'".to_owned(),
        description: "front".to_owned(),
        cell_name: "web".to_owned(),
        options: Some(ExecutableOptions {
            uid: Some(1000),
            environment: vec!["A=1".to_owned()],
            ..ExecutableOptions::default()
        }),
    };
    let got: OldExecutable = as_read_by_the_other(&sent);
    assert_eq!(got.command, sent.command);
    assert_eq!((&*got.description, &*got.cell_name), ("front", "web"));

    let sent = runtime::StartCellResponse {
        process_id: Some(4711),
    };
    assert!(!sent.encode_to_vec().is_empty());
    let got: OldStartCellResponse = as_read_by_the_other(&sent);
    assert_eq!(got, OldStartCellResponse {});
}

#[test]
fn an_old_client_keeps_the_number_of_a_type_it_does_not_know() {
    let sent = scheduler::Instance {
        id: "vm-1".to_owned(),
        r#type: scheduler::Type::Vm.into(),
        ..scheduler::Instance::default()
    };
    let got: OldInstance = as_read_by_the_other(&sent);
    assert_eq!((&*got.id, got.r#type), ("vm-1", 1));
}

#[test]
fn machine_status_skips_number_three_as_the_published_service_does() {
    let sent = kaas::get_cluster_nodes_status_reply::MachineStatus {
        k8s_version: "v1.35.0".to_owned(),
        maas_system_id: "x7k".to_owned(),
        maas_ip_addr: "10.0.0.9".to_owned(),
        ..Default::default()
    };
    let got: OldMachineStatus = as_read_by_the_other(&sent);
    assert_eq!(got.k8s_version, sent.k8s_version);
    assert_eq!(got.maas_system_id, sent.maas_system_id);
    assert_eq!(got.maas_ip_addr, sent.maas_ip_addr);
}
