//! The policy holds every gRPC call there is, and none that there is not.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use strata_identity::policy;

#[test]
fn the_table_and_the_services_name_the_same_calls() {
    let sets = [
        strata_api::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut calls = BTreeSet::new();
    for file in sets
        .iter()
        .flat_map(|set| FileDescriptorSet::decode(*set).unwrap().file)
    {
        for service in &file.service {
            for method in &service.method {
                let (package, service) = (file.package(), service.name());
                calls.insert(format!("/{package}.{service}/{}", method.name()));
            }
        }
    }
    let table: BTreeSet<String> = policy::grpc_methods().map(str::to_owned).collect();
    let missing: Vec<_> = calls.difference(&table).collect();
    let unknown: Vec<_> = table.difference(&calls).collect();
    assert!(missing.is_empty(), "not in the policy: {missing:#?}");
    assert!(
        unknown.is_empty(),
        "in the policy, but in no proto: {unknown:#?}"
    );
}
