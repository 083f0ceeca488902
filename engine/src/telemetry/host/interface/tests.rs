//! Interfaces as several kinds of machines show them.

use std::os::unix::fs::symlink;

use super::*;
use crate::telemetry::host::files::tests::tree;

/// A bare machine with a ConnectX card on node 1, two queues, RPS on the first.
const MLX5: &[(&str, &str)] = &[
    ("sys/devices/pci0000:80/0000:81:00.0/numa_node", "1\n"),
    ("sys/devices/pci0000:80/0000:81:00.0/msi_irqs/120", "msix\n"),
    ("sys/devices/pci0000:80/0000:81:00.0/msi_irqs/121", "msix\n"),
    ("sys/devices/pci0000:80/0000:81:00.0/msi_irqs/122", "msix\n"),
    ("sys/class/net/eth2/speed", "100000\n"),
    ("sys/class/net/eth2/mtu", "9000\n"),
    ("sys/class/net/eth2/gro_flush_timeout", "0\n"),
    ("sys/class/net/eth2/queues/rx-0/rps_cpus", "00000000,0000000c\n"),
    ("sys/class/net/eth2/queues/rx-0/rps_flow_cnt", "4096\n"),
    ("sys/class/net/eth2/queues/rx-1/rps_cpus", "00000000,00000000\n"),
    ("sys/class/net/eth2/queues/tx-0/xps_cpus", "00000000,00000001\n"),
    ("proc/irq/121/smp_affinity_list", "0-63\n"),
    ("proc/irq/121/effective_affinity_list", "3\n"),
    ("proc/irq/122/smp_affinity_list", "4\n"),
    (
        "proc/interrupts",
        "            CPU0       CPU1       CPU2       CPU3
   8:          0          0          0          1  IR-IO-APIC    8-edge      rtc0
 120:         12          0          0          0  IR-PCI-MSIX-0000:81:00.0    0-edge      mlx5_async0@pci:0000:81:00.0
 121:          5          0          0     815321  IR-PCI-MSIX-0000:81:00.0    1-edge      mlx5_comp0@pci:0000:81:00.0
 122:          0          0       7000          0  IR-PCI-MSIX-0000:81:00.0    2-edge      mlx5_comp1@pci:0000:81:00.0
 130:          9          9          9          9  IR-PCI-MSIX-0000:41:00.0    0-edge      nvme0q0
 NMI:          0          0          0          0   Non-maskable interrupts
",
    ),
];

#[test]
fn a_card_on_a_bus_lists_its_interrupts() {
    let dir = tree(MLX5);
    let device = dir.path().join("sys/devices/pci0000:80/0000:81:00.0");
    symlink(&device, dir.path().join("sys/class/net/eth2/device")).unwrap();
    symlink("../../../bus/pci/drivers/mlx5_core", device.join("driver")).unwrap();
    let card = Interface::read(&Files::below(dir.path()), "eth2");
    assert_eq!(card.driver.as_deref(), Some("mlx5_core"));
    assert_eq!((card.speed_mbit, card.mtu, card.node), (Some(100_000), Some(9000), Some(1)));
    assert_eq!(card.hold_ns, Some(0));
    let queues = [Queue { rps: vec![2, 3], flows: 4096 }, Queue { rps: vec![], flows: 0 }];
    assert_eq!(card.queues, queues);
    let irqs: Vec<_> = card.irqs.iter().map(|irq| (irq.number, &irq.cpus[..])).collect();
    assert_eq!(irqs, [(121, &[3][..]), (122, &[4][..])]);
}

#[test]
fn below_a_vlan_on_a_bond_there_is_a_card() {
    let dir = tree(MLX5);
    let device = dir.path().join("sys/devices/pci0000:80/0000:81:00.0");
    symlink(&device, dir.path().join("sys/class/net/eth2/device")).unwrap();
    symlink("../../../bus/pci/drivers/mlx5_core", device.join("driver")).unwrap();
    for (upper, lower) in [("bond0.7", "bond0"), ("bond0", "eth2"), ("veth1", "veth0")] {
        let upper = dir.path().join("sys/class/net").join(upper);
        std::fs::create_dir_all(&upper).unwrap();
        symlink(format!("../{lower}"), upper.join(format!("lower_{lower}"))).unwrap();
    }
    let files = Files::below(dir.path());
    assert_eq!(Interface::carrying(&files, "bond0.7").name, "eth2");
    assert_eq!(Interface::carrying(&files, "eth2").name, "eth2");
    assert_eq!(Interface::carrying(&files, "veth1").name, "veth1", "no card to be seen");
}

#[test]
fn a_virtual_card_has_its_interrupts_one_folder_up() {
    let dir = tree(&[
        ("sys/devices/pci0000:00/0000:00:03.0/msi_irqs/37", "msix\n"),
        ("sys/devices/pci0000:00/0000:00:03.0/msi_irqs/38", "msix\n"),
        ("sys/devices/pci0000:00/0000:00:03.0/msi_irqs/39", "msix\n"),
        ("sys/devices/pci0000:00/0000:00:03.0/virtio2/vendor", "0x1af4\n"),
        ("sys/class/net/eth0/speed", "-1\n"),
        ("sys/class/net/eth0/mtu", "1500\n"),
        ("proc/irq/38/smp_affinity_list", "0-1\n"),
        ("proc/irq/38/effective_affinity_list", "1\n"),
        (
            "proc/interrupts",
            "           CPU0       CPU1
 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0       2401 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:       1797          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
",
        ),
    ]);
    let device = dir.path().join("sys/devices/pci0000:00/0000:00:03.0/virtio2");
    symlink(&device, dir.path().join("sys/class/net/eth0/device")).unwrap();
    symlink("../../../../bus/virtio/drivers/virtio_net", device.join("driver")).unwrap();
    let card = Interface::read(&Files::below(dir.path()), "eth0");
    assert_eq!((card.driver.as_deref(), card.speed_mbit), (Some("virtio_net"), None));
    assert_eq!((card.irqs.len(), &card.irqs[0].cpus[..]), (1, &[1][..]));
}

#[test]
fn without_a_list_the_name_of_the_interface_tells() {
    let dir = tree(&[(
        "proc/interrupts",
        "           CPU0
 60:         10  ITS-MSI 524288 Edge      ice-eth1-TxRx-0
 61:         11  ITS-MSI 524289 Edge      eth1-Tx-Rx-3
 62:         12  ITS-MSI 524290 Edge      ice-eth10-TxRx-0
 63:         13  ITS-MSI 524291 Edge      eth1-tx-0
",
    )]);
    let card = Interface::read(&Files::below(dir.path()), "eth1");
    let numbers: Vec<_> = card.irqs.iter().map(|irq| irq.number).collect();
    assert_eq!(numbers, [60, 61]);
    assert!(card.irqs[0].cpus.is_empty(), "nobody says where they go");
}

#[test]
fn an_interface_of_software_has_nothing_of_this() {
    let dir = tree(&[("sys/class/net/lo/mtu", "65536\n"), ("proc/interrupts", "     CPU0\n")]);
    let lo = Interface::read(&Files::below(dir.path()), "lo");
    assert_eq!(lo, Interface { name: "lo".into(), mtu: Some(65_536), ..Interface::default() });
}
