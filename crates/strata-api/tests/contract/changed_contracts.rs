//! Proof that the contract test can fail: each kind of damage, done to the
//! real descriptors, is seen and named; what is allowed passes.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto, ServiceDescriptorProto,
};

use super::{descriptors, violations};

/// The verdict on the real descriptors after `damage` was done to them.
fn verdict(damage: impl FnOnce(&mut FileDescriptorSet)) -> String {
    let mut set = descriptors();
    damage(&mut set);
    violations(&set).join("\n")
}

fn file<'a>(set: &'a mut FileDescriptorSet, package: &str) -> &'a mut FileDescriptorProto {
    let mut files = set.file.iter_mut();
    files
        .find(|file| file.package() == package)
        .expect("the package is there")
}

fn message<'a>(
    set: &'a mut FileDescriptorSet,
    package: &str,
    name: &str,
) -> &'a mut DescriptorProto {
    let mut messages = file(set, package).message_type.iter_mut();
    messages
        .find(|message| message.name() == name)
        .expect("the message is there")
}

fn field<'a>(
    set: &'a mut FileDescriptorSet,
    package: &str,
    name: &str,
    field: &str,
) -> &'a mut FieldDescriptorProto {
    let mut fields = message(set, package, name).field.iter_mut();
    fields
        .find(|candidate| candidate.name() == field)
        .expect("the field is there")
}

fn service<'a>(
    set: &'a mut FileDescriptorSet,
    package: &str,
    name: &str,
) -> &'a mut ServiceDescriptorProto {
    let mut services = file(set, package).service.iter_mut();
    services
        .find(|service| service.name() == name)
        .expect("the service is there")
}

fn method<'a>(
    set: &'a mut FileDescriptorSet,
    package: &str,
    name: &str,
    method: &str,
) -> &'a mut MethodDescriptorProto {
    let mut methods = service(set, package, name).method.iter_mut();
    methods
        .find(|candidate| candidate.name() == method)
        .expect("the call is there")
}

/// A new field of `runtime.Cell`.
fn extra(number: i32, label: Label, keyword_optional: bool) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some("extra".to_owned()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(Type::String.into()),
        proto3_optional: Some(keyword_optional),
        ..FieldDescriptorProto::default()
    }
}

fn verdict_on_extra(number: i32, label: Label, keyword_optional: bool) -> String {
    verdict(|set| {
        let cell = message(set, "runtime", "Cell");
        cell.field.push(extra(number, label, keyword_optional));
    })
}

#[test]
fn undamaged_descriptors_pass() {
    assert_eq!(verdict(|_| {}), "");
}

#[test]
fn a_renamed_field_is_seen() {
    let verdict = verdict(|set| {
        field(set, "scheduler", "Instance", "environnement").name = Some("environment".to_owned());
    });
    assert!(verdict.contains("- field scheduler.Instance.environnement = 6 repeated string"));
    assert!(verdict.contains("+ field scheduler.Instance.environment = 6 repeated string"));
}

#[test]
fn a_renumbered_field_is_seen() {
    let verdict = verdict(|set| field(set, "runtime", "Cell", "cpu_shares").number = Some(3));
    assert_eq!(
        verdict,
        "- field runtime.Cell.cpu_shares = 2 uint64\n+ field runtime.Cell.cpu_shares = 3 uint64",
    );
}

#[test]
fn a_field_of_another_type_is_seen() {
    let verdict = verdict(|set| {
        field(set, "operations.v1", "ExpandStorageRequest", "min_bytes").set_type(Type::Int64);
    });
    assert!(verdict.contains("- field operations.v1.ExpandStorageRequest.min_bytes = 1 int32"));
    assert!(verdict.contains("+ field operations.v1.ExpandStorageRequest.min_bytes = 1 int64"));
}

#[test]
fn a_field_of_another_message_is_seen() {
    let verdict = verdict(|set| {
        field(set, "controller", "Resource", "max").type_name =
            Some(".scheduler.ResourceSummary".to_owned());
    });
    assert!(verdict.contains("+ field controller.Resource.max = 1 scheduler.ResourceSummary"));
}

#[test]
fn a_changed_label_is_seen() {
    let verdict = verdict(|set| {
        field(set, "controller", "Instance", "ports").set_label(Label::Optional);
        field(set, "controller", "Instance", "ip").proto3_optional = Some(true);
    });
    assert!(verdict.contains("+ field controller.Instance.ports = 8 string"));
    assert!(verdict.contains("+ field controller.Instance.ip = 9 optional string"));
}

#[test]
fn a_changed_json_name_and_a_oneof_are_seen() {
    let verdict = verdict(|set| {
        field(set, "observe", "LogItem", "line").json_name = Some("text".to_owned());
        field(set, "observe", "LogItem", "channel").oneof_index = Some(0);
    });
    assert!(verdict.contains("+ field observe.LogItem.line = 2 string json=text"));
    assert!(verdict.contains("+ field observe.LogItem.channel = 1 string in a oneof"));
}

#[test]
fn a_dropped_field_and_a_dropped_message_are_seen() {
    let verdict = verdict(|set| {
        message(set, "runtime", "Executable")
            .field
            .retain(|field| field.name() != "description");
        file(set, "observe")
            .message_type
            .retain(|message| message.name() != "LogItem");
    });
    assert!(verdict.contains("- field runtime.Executable.description = 3 string"));
    assert!(verdict.contains("- message observe.LogItem"));
    assert!(verdict.contains("- field observe.LogItem.line = 2 string"));
}

#[test]
fn a_nested_message_is_compared_too() {
    let verdict = verdict(|set| {
        let reply = message(set, "cnct.kaas.api", "GetClusterNodesStatusReply");
        for field in &mut reply.nested_type[0].field {
            field.number = field.number.map(|n| if n > 3 { n - 1 } else { n });
        }
    });
    let status = "cnct.kaas.api.GetClusterNodesStatusReply.MachineStatus";
    assert!(verdict.contains(&format!("- field {status}.maasSystemId = 4 string")));
    assert!(verdict.contains(&format!("+ field {status}.maasSystemId = 3 string")));
    assert!(verdict.contains(&format!("+ field {status}.maasIPAddr = 6 string")));
}

#[test]
fn changed_missing_and_extra_enum_values_are_seen() {
    let verdict = verdict(|set| {
        let statuses = &mut file(set, "scheduler").enum_type[0].value;
        assert_eq!(statuses[6].name(), "FAILED");
        statuses[6].name = Some("CRASHED".to_owned());
        statuses[7].number = Some(9);
        statuses.pop();
    });
    assert!(verdict.contains("- value scheduler.Status.FAILED = 6"));
    assert!(verdict.contains("+ value scheduler.Status.CRASHED = 6"));
    assert!(verdict.contains("+ value scheduler.Status.SCHEDULING = 9"));
    assert!(verdict.contains("- value scheduler.Status.SCHEDULED = 8"));
}

#[test]
fn a_listed_addition_that_is_gone_is_seen() {
    let verdict = verdict(|set| {
        let types = &mut file(set, "scheduler").enum_type[1].value;
        types.retain(|value| value.name() != "VM");
    });
    assert_eq!(verdict, "- value scheduler.Type.VM = 1");
}

#[test]
fn a_dropped_call_is_seen() {
    let verdict = verdict(|set| {
        let cells = service(set, "runtime", "CellService");
        cells.method.retain(|method| method.name() != "Stop");
    });
    assert_eq!(
        verdict,
        "- rpc runtime.CellService.Stop (runtime.StopCellRequest) returns (runtime.StopCellResponse)",
    );
}

#[test]
fn a_call_with_another_answer_is_seen() {
    let verdict = verdict(|set| {
        method(set, "scheduler", "InstanceService", "Stop").output_type =
            Some(".scheduler.InstanceStatus".to_owned());
    });
    assert!(verdict.contains(
        "+ rpc scheduler.InstanceService.Stop (scheduler.InstanceIdentifier) returns (scheduler.InstanceStatus)"
    ));
}

#[test]
fn flipped_streaming_is_seen_on_either_side() {
    let verdict = verdict(|set| {
        method(set, "scheduler", "NodeService", "Status").client_streaming = Some(false);
        method(set, "operations.v1", "OperationsService", "CreateBackup").server_streaming = None;
        method(set, "runtime", "CellService", "Free").server_streaming = Some(true);
    });
    assert!(verdict.contains(
        "+ rpc scheduler.NodeService.Status (scheduler.NodeStatus) returns (google.protobuf.Empty)"
    ));
    assert!(verdict.contains("returns (operations.v1.CreateBackupResponse)"));
    assert!(verdict.contains("returns (stream runtime.FreeCellResponse)"));
}

#[test]
fn a_dropped_service_and_a_dropped_package_are_seen_even_when_empty() {
    let verdict = verdict(|set| {
        let runtime = file(set, "runtime");
        runtime.service.retain(|service| service.name() != "Spawn");
        set.file.retain(|file| file.package() != "schedule");
    });
    assert!(verdict.starts_with("- service runtime.Spawn\n- package schedule\n"));
}

#[test]
fn another_syntax_is_seen() {
    let verdict = verdict(|set| file(set, "observe").syntax = None);
    assert!(verdict.contains("+ package observe syntax"));
}

#[test]
fn things_of_ours_need_leave() {
    let verdict = verdict(|set| {
        let runtime = file(set, "runtime");
        runtime.message_type.push(DescriptorProto {
            name: Some("Pod".to_owned()),
            ..DescriptorProto::default()
        });
        service(set, "runtime", "Pods")
            .method
            .push(MethodDescriptorProto {
                name: Some("Create".to_owned()),
                input_type: Some(".runtime.Pod".to_owned()),
                output_type: Some(".runtime.Pod".to_owned()),
                ..MethodDescriptorProto::default()
            });
    });
    assert!(verdict.contains("+ message runtime.Pod "));
    assert!(verdict.contains("+ rpc runtime.Pods.Create (runtime.Pod) returns (runtime.Pod)"));
}

#[test]
fn extra_fields_below_100_are_seen() {
    assert!(verdict_on_extra(5, Label::Optional, true).contains("+ field runtime.Cell.extra = 5"));
    assert!(
        verdict_on_extra(99, Label::Repeated, false).contains("+ field runtime.Cell.extra = 99")
    );
}

#[test]
fn extra_fields_from_100_must_be_able_to_be_absent() {
    let required = verdict_on_extra(101, Label::Required, false);
    assert!(required.contains("+ field runtime.Cell.extra = 101 required string"));
    let plain = verdict_on_extra(101, Label::Optional, false);
    assert!(plain.contains("+ field runtime.Cell.extra = 101 string"));
}

#[test]
fn extra_optional_and_repeated_fields_from_100_pass() {
    assert_eq!(verdict_on_extra(101, Label::Optional, true), "");
    assert_eq!(verdict_on_extra(101, Label::Repeated, false), "");
}

#[test]
fn other_packages_are_free() {
    let verdict = verdict(|set| {
        file(set, "strata.v1").message_type.clear();
    });
    assert_eq!(verdict, "");
}
