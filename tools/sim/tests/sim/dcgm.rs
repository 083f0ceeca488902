//! The stand-in for DCGM's exporter.

use std::time::Duration;

use tokclock_sim::{DcgmSettings, Law, Server, Settings};

use crate::client::{Client, chat, request};
use crate::timing::{CHAT, MS};

fn value(text: &str, name: &str, gpu: u32) -> f64 {
    let start = format!("{name}{{gpu=\"{gpu}\"");
    let line = text.lines().find(|line| line.starts_with(&start)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn gpus_follow_the_load_of_the_server() {
    let settings = Settings {
        ttft: Law::Constant(20_000 * MS),
        max_concurrent: Some(2),
        dcgm: Some(DcgmSettings { gpus: 2, interval_ns: 20 * MS, port: 0 }),
        ..Settings::default()
    };
    let server = Server::start(&settings).unwrap();
    let scrape = || Client::new(server.dcgm_address().unwrap()).get("/metrics").body;
    let mut busy = Client::new(server.address());
    busy.send(request(CHAT, &chat(1)).as_bytes());
    busy.head();
    // Two intervals and more; were it slower the loop would wait on.
    let told = (0..500).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        scrape()
    });
    let told = told.into_iter().find(|told| value(told, "DCGM_FI_DEV_GPU_UTIL", 1) > 0.0).unwrap();
    assert_eq!(value(&told, "DCGM_FI_DEV_GPU_UTIL", 0), 50.0);
    assert_eq!(value(&told, "DCGM_FI_DEV_POWER_USAGE", 1), 370.0);
    assert_eq!(value(&told, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 1), 9_223_372_036_854_775_794.0);
    let energy = |told: &str| value(told, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 0);
    let before = energy(&told);
    let later = (0..500).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        energy(&scrape())
    });
    assert!(later.into_iter().any(|later| later > before + 370.0 * 20.0 - 1.0));
    assert_eq!(Client::new(server.dcgm_address().unwrap()).get("/").status, 404);
}
