//! Who gets which request, and what each of its legs is told.

use super::bodies::{for_one_token, with_more};
use crate::plan::random::{Purpose, Streams, fraction};
use crate::workload::{Dialect, Disagg, Flow, Pick, Prefill, Workload};

/// What a prefill server of vLLM is told, so that it keeps the KV cache and says where it lies.
const TO_PREFILL: &str = "\"kv_transfer_params\":{\"do_remote_decode\":true,\
    \"do_remote_prefill\":false,\"remote_engine_id\":null,\"remote_block_ids\":null,\
    \"remote_host\":null,\"remote_port\":null}";

/// Numbers of legs, by which their spans differ.
const WHOLE: u8 = 0;
const PREFILL: u8 = 1;
const DECODE: u8 = 2;
const BASELINE: u8 = 3;

/// Decides on the legs of requests: by the workload and the request's number alone, but for the run's
/// id, by which they are told of each other.
#[derive(Debug, Clone)]
pub(crate) struct Planner {
    flow: Flow,
    decode: usize,
    prefill: Vec<Prefill>,
    routers: usize,
    pick: Pick,
    baseline: f64,
    pairs: Streams,
    arms: Streams,
    sampled: Streams,
    rooms: Streams,
    run_id: String,
    /// Prompts are kept apart in prefix caches.
    salts: bool,
}

/// The way of a request. Servers are numbered: decode servers, prefill servers, routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// We are the router.
    Direct {
        /// The prefill server's number.
        prefill: usize,
        /// The decode server's number.
        decode: usize,
    },
    /// A router's number.
    Router(usize),
}

/// What is ready of a request's legs beside the bytes that are sent first.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Its way.
    pub(crate) route: Route,
    /// How it is handed over.
    pub(crate) flow: Flow,
    /// The head of the request to the decode server, up to the value of Content-Length.
    pub(crate) head: Vec<u8>,
    /// Its body; the hand-off object belongs before its last byte, where it is not known before.
    pub(crate) body: Vec<u8>,
    /// The whole request that is sent once more, if it is one of those.
    pub(crate) baseline: Option<Vec<u8>>,
}

impl Planned {
    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.head.len() + self.body.len() + self.baseline.as_ref().map_or(0, Vec::len)
    }
}

impl Planner {
    /// The planner of a workload whose target has the router's role.
    pub(crate) fn new(workload: &Workload, disagg: &Disagg, run_id: &str) -> Self {
        let of = |purpose| Streams::new(workload.seed, purpose);
        let target = &workload.target;
        let has_salt = matches!(target.dialect, Dialect::OpenaiChat | Dialect::OpenaiCompletions);
        Self {
            flow: disagg.flow,
            decode: target.endpoints.len(),
            prefill: disagg.prefill.clone(),
            routers: disagg.routers.len(),
            pick: disagg.pick,
            baseline: disagg.baseline,
            pairs: of(Purpose::Pairing),
            arms: of(Purpose::Arm),
            sampled: of(Purpose::Baseline),
            rooms: of(Purpose::Room),
            run_id: run_id.to_owned(),
            salts: has_salt && !disagg.routers.is_empty(),
        }
    }

    /// The way of an item. Of two neighbours one goes by a router, if there are any; which of them is
    /// drawn.
    pub(crate) fn route(&self, item: u64) -> Route {
        let mut nth = item;
        if self.routers > 0 {
            nth = item / 2;
            let is_first = self.arms.key(nth) & 1 == 0;
            if item.is_multiple_of(2) == is_first {
                let router = (nth % self.routers as u64) as usize;
                return Route::Router(self.decode + self.prefill.len() + router);
            }
        }
        let (prefills, decodes) = (self.prefill.len() as u64, self.decode as u64);
        let (prefill, decode) = match self.pick {
            Pick::RoundRobin => (nth % prefills, nth / prefills % decodes),
            Pick::Random => {
                let drawn = self.pairs.key(nth) % (prefills * decodes);
                (drawn % prefills, drawn / prefills)
            }
        };
        Route::Direct { prefill: self.decode + prefill as usize, decode: decode as usize }
    }

    /// The first server that hears of an item, and by which leg.
    pub(crate) fn first(&self, item: u64) -> (usize, u8) {
        match self.route(item) {
            Route::Direct { prefill, .. } => (prefill, PREFILL),
            Route::Router(server) => (server, WHOLE),
        }
    }

    /// Appends the body that is sent first of request `index`, whose whole body is `body`, to `out`,
    /// and says what is ready of the other leg. `head` writes the head of a leg to a server, up to the
    /// value of Content-Length.
    pub(crate) fn split(
        &self,
        (item, index): (u64, u64),
        body: &[u8],
        out: &mut Vec<u8>,
        head: impl Fn((usize, u8), &mut Vec<u8>),
    ) -> Planned {
        let route = self.route(item);
        let salt = self.salts.then(|| format!("\"cache_salt\":\"{}-{index}\"", self.run_id));
        let mut whole = Vec::with_capacity(body.len() + 256);
        with_more(body, salt.as_deref().unwrap_or_default(), &mut whole);
        let mut planned =
            Planned { route, flow: self.flow, head: Vec::new(), body: Vec::new(), baseline: None };
        let Route::Direct { prefill, decode } = route else {
            out.extend_from_slice(&whole);
            return planned;
        };
        head((decode, DECODE), &mut planned.head);
        let prefill = &self.prefill[prefill - self.decode];
        match self.flow {
            Flow::VllmNixl => {
                for_one_token(&whole, false, TO_PREFILL, out);
                if fraction(self.sampled.key(index)) < self.baseline {
                    let mut again = Vec::new();
                    head((decode, BASELINE), &mut again);
                    planned.baseline = Some(once_more(&whole, &again));
                }
                planned.body = whole;
            }
            Flow::VllmPush => {
                for_one_token(&whole, false, TO_PREFILL, out);
                with_more(&whole, &self.pushed_from(prefill, index), &mut planned.body);
            }
            Flow::Sglang => {
                with_more(&whole, &self.room(prefill, index), &mut planned.body);
                out.extend_from_slice(&planned.body);
            }
        }
        planned
    }

    /// What a decode server is told to whom something is pushed.
    fn pushed_from(&self, prefill: &Prefill, index: u64) -> String {
        format!(
            "\"kv_transfer_params\":{{\"do_remote_decode\":false,\"do_remote_prefill\":true,\
             \"remote_engine_id\":{},\"remote_host\":{},\"remote_port\":{},\"tp_size\":{},\
             \"pp_size\":{},\"remote_request_id\":\"{}-{index}\"}}",
            serde_json::Value::from(prefill.engine_id.as_deref().unwrap_or_default()),
            serde_json::Value::from(prefill.host.as_str()),
            prefill.port,
            prefill.tensor_parallel,
            prefill.pipeline_parallel,
            self.run_id,
        )
    }

    /// Where the two servers of SGLang meet. The room is unlike any other of this run or the next: 63
    /// bits of the seed, the request's number and the run.
    fn room(&self, prefill: &Prefill, index: u64) -> String {
        let run = self.run_id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!(
            "\"bootstrap_host\":{},\"bootstrap_port\":{},\"bootstrap_room\":{}",
            serde_json::Value::from(prefill.host.as_str()),
            prefill.port,
            (self.rooms.key(index) ^ run) >> 1,
        )
    }
}

/// The request for one token of the same prompt.
fn once_more(body: &[u8], head: &[u8]) -> Vec<u8> {
    let mut short = Vec::with_capacity(body.len());
    for_one_token(body, true, "", &mut short);
    super::decode_request(head, &short, None)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::Value;

    use super::*;
    use crate::workload::sample;

    fn planner(flow: Flow, decodes: usize, prefills: usize, routers: usize) -> Planner {
        let mut workload = sample();
        let endpoint = workload.target.endpoints[0].clone();
        workload.target.endpoints = vec![endpoint.clone(); decodes];
        let prefill = Prefill {
            endpoint: endpoint.clone(),
            host: "p.lan".into(),
            port: 8998,
            engine_id: Some("e-1".into()),
            tensor_parallel: 1,
            pipeline_parallel: 1,
        };
        let disagg = Disagg {
            flow,
            prefill: vec![prefill; prefills],
            routers: vec![endpoint; routers],
            pick: Pick::RoundRobin,
            baseline: 0.5,
        };
        Planner::new(&workload, &disagg, "run")
    }

    fn split(planner: &Planner, item: u64) -> (Value, Planned) {
        let mut out = Vec::new();
        let body = br#"{"model":"m","prompt":"x","max_tokens":8,"min_tokens":8,"stream":true}"#;
        let head = |(server, _): (usize, u8), out: &mut Vec<u8>| {
            out.extend_from_slice(
                format!("POST /{server} HTTP/1.1\r\nContent-Length: ").as_bytes(),
            );
        };
        let planned = planner.split((item, item), body, &mut out, head);
        (serde_json::from_slice(&out).unwrap(), planned)
    }

    #[test]
    fn every_pair_has_its_turn_and_the_arms_are_halves() {
        let planner = planner(Flow::VllmNixl, 2, 3, 2);
        let mut pairs = HashMap::new();
        let mut routers = HashMap::new();
        for item in 0..1200 {
            match planner.route(item) {
                Route::Direct { prefill, decode } => {
                    assert!((2..5).contains(&prefill) && decode < 2);
                    *pairs.entry((prefill, decode)).or_insert(0) += 1;
                }
                Route::Router(server) => *routers.entry(server).or_insert(0) += 1,
            }
        }
        assert_eq!(pairs.len(), 6);
        assert!(pairs.values().all(|count| *count == 100), "{pairs:?}");
        assert_eq!(routers, HashMap::from([(5, 300), (6, 300)]));
    }

    #[test]
    fn nixl_asks_for_one_token_and_keeps_a_place_for_the_object() {
        let planner = planner(Flow::VllmNixl, 1, 1, 0);
        let (prefill, planned) = split(&planner, 0);
        assert_eq!(prefill["max_tokens"], 1);
        assert_eq!(prefill["stream"], false);
        assert_eq!(prefill["kv_transfer_params"]["do_remote_decode"], true);
        assert!(prefill.get("min_tokens").is_none());
        let body: Value = serde_json::from_slice(&planned.body).unwrap();
        assert_eq!((&body["max_tokens"], &body["stream"]), (&8.into(), &true.into()));
        let sampled = (0..1000).filter(|&item| split(&planner, item).1.baseline.is_some()).count();
        assert!((400..600).contains(&sampled), "{sampled}");
        let (_, planned) =
            (0..).map(|item| split(&planner, item)).find(|one| one.1.baseline.is_some()).unwrap();
        let text = String::from_utf8(planned.baseline.unwrap()).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["max_tokens"], &body["stream"]), (&1.into(), &true.into()));
    }

    #[test]
    fn push_tells_the_decode_server_where_and_by_which_id() {
        let (_, planned) = split(&planner(Flow::VllmPush, 1, 1, 0), 3);
        let body: Value = serde_json::from_slice(&planned.body).unwrap();
        let params = &body["kv_transfer_params"];
        assert_eq!(params["remote_request_id"], "run-3");
        assert_eq!(
            (&params["remote_host"], &params["remote_port"]),
            (&"p.lan".into(), &8998.into())
        );
        assert_eq!(params["remote_engine_id"], "e-1");
    }

    #[test]
    fn sglang_tells_both_the_same_and_no_room_is_used_twice() {
        let planner = planner(Flow::Sglang, 1, 1, 0);
        let mut rooms = HashSet::new();
        for item in 0..1000 {
            let (prefill, planned) = split(&planner, item);
            let decode: Value = serde_json::from_slice(&planned.body).unwrap();
            assert_eq!(prefill, decode);
            let room = prefill["bootstrap_room"].as_u64().unwrap();
            assert!(i64::try_from(room).is_ok() && rooms.insert(room));
        }
    }

    #[test]
    fn beside_a_router_no_prompt_is_in_a_cache() {
        let planner = planner(Flow::VllmNixl, 1, 1, 1);
        let salts: HashSet<String> =
            (0..100).map(|item| split(&planner, item).0["cache_salt"].to_string()).collect();
        assert_eq!(salts.len(), 100);
        assert!(split(&self::planner(Flow::VllmNixl, 1, 1, 0), 0).0.get("cache_salt").is_none());
    }
}
