//! The configuration, as people write it.

use strata_machines::maas::MaasConfig;
use strata_machines::redfish::{BootMethod, Erase, RedfishConfig, TagPolicy};

#[test]
fn minimal_bmc_configuration_is_accepted() {
    let config: RedfishConfig = toml::from_str(
        "
        boot = \"uefi-http\"
        tag = \"optional\"
        erase = \"secure-erase\"
        media = { listen = \"10.0.0.1:7720\" }
        [credentials.rack]
        user = \"admin\"
        password_file = \"/etc/strata/bmc\"
        ca_file = \"/etc/strata/bmc.pem\"
        addresses = [\"https://10.0.0.9\"]
        ",
    )
    .unwrap();
    assert_eq!(config.boot, BootMethod::UefiHttp);
    assert_eq!(config.tag, TagPolicy::Optional);
    assert_eq!(config.erase, Erase::SecureErase);
    assert!(!config.credentials["rack"].insecure);
    let plain: RedfishConfig = toml::from_str("").unwrap();
    assert_eq!(plain.boot, BootMethod::VirtualMedia);
    assert_eq!(plain.tag, TagPolicy::Required);
    assert_eq!(plain.erase, Erase::None);
    let wrong = toml::from_str::<RedfishConfig>("[credentials.a]\nuser = \"a\"\npasword = \"b\"");
    assert!(wrong.unwrap_err().to_string().contains("pasword"));
}

#[test]
fn minimal_maas_configuration_is_accepted() {
    let config: MaasConfig = toml::from_str(
        "
        binary_url = \"http://10.0.0.1/strata\"
        binary_sha256 = \"00\"
        [credentials.lab]
        address = \"https://maas.example/MAAS\"
        api_key = \"a:b:c\"
        ",
    )
    .unwrap();
    assert!(config.erase && !config.credentials["lab"].insecure);
    assert!(!format!("{config:?}").contains("a:b:c"));
}
