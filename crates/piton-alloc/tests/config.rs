//! Settings that contradict each other, or could have no effect, are refused when the pool is made.

#![cfg(not(loom))]

mod source;

use std::sync::Arc;

use piton_alloc::{ConfigError, DevicePool, ExactBlocks, MemoryPoolConfig, PoolLimit, SearchRule};
use piton_timeline::Timeline;
use source::{Books, GRANULE};

const CAPACITY: u64 = 256 << 10;
const MORE: u64 = 2 * CAPACITY;

fn refusal(change: fn(&mut MemoryPoolConfig)) -> Option<ConfigError> {
    let mut config = MemoryPoolConfig::default();
    change(&mut config);
    let source = Arc::new(Books::new(CAPACITY));
    DevicePool::new(source, Timeline::new(), &config).err()
}

#[test]
fn the_default_is_fine() {
    assert_eq!(refusal(|_| ()), None);
}

#[test]
fn alignments_are_powers_of_two_within_bounds() {
    for (change, given) in [
        (
            (|config| config.alignment = 16) as fn(&mut MemoryPoolConfig),
            16,
        ),
        (|config| config.alignment = 96, 96),
        (|config| config.alignment = 0, 0),
        (|config| config.alignment = 2 * GRANULE, 2 * GRANULE),
    ] {
        let (minimum, maximum) = (32, GRANULE);
        let expected = ConfigError::Alignment {
            given,
            minimum,
            maximum,
        };
        assert_eq!(refusal(change), Some(expected));
    }
    assert_eq!(refusal(|config| config.alignment = 32), None);
}

#[test]
fn a_source_that_aligns_to_nothing_is_blamed_itself() {
    for given in [0, 16, 96] {
        let source = Arc::new(Books::aligned(CAPACITY, given));
        let refused = DevicePool::new(source, Timeline::new(), &MemoryPoolConfig::default());
        let minimum = 32;
        let expected = ConfigError::SourceAlignment { given, minimum };
        assert_eq!(refused.err(), Some(expected));
    }
}

#[test]
fn a_lost_device_is_named_by_the_message_itself() {
    let source = Arc::new(Books::new(CAPACITY));
    let config = MemoryPoolConfig::default();
    let pool = DevicePool::new(Arc::clone(&source) as _, Timeline::new(), &config).unwrap();
    source.lose();
    let lost = piton_alloc::BlockSource::status(&*source).unwrap_err();
    let refused = pool.allocate(piton_alloc::Request::new(64)).unwrap_err();
    assert_eq!(refused.to_string(), lost.to_string());
}

#[test]
fn block_sizes_are_what_the_source_serves_and_the_limit_allows() {
    let multiple = GRANULE;
    let zero = ConfigError::BlockBytes { given: 0, multiple };
    assert_eq!(refusal(|config| config.block_bytes = Some(0)), Some(zero));
    let odd = ConfigError::BlockBytes {
        given: 1000,
        multiple,
    };
    assert_eq!(refusal(|config| config.block_bytes = Some(1000)), Some(odd));
    let beyond = ConfigError::BlockBeyondLimit {
        given: MORE,
        limit: CAPACITY,
    };
    assert_eq!(
        refusal(|config| config.block_bytes = Some(MORE)),
        Some(beyond)
    );
}

#[test]
fn a_search_looks_at_something() {
    let none = |config: &mut MemoryPoolConfig| config.search = SearchRule::BestOf(0);
    assert_eq!(refusal(none), Some(ConfigError::SearchRule));
    let youngest = refusal(|config| config.search = SearchRule::BestOf(1));
    let best = refusal(|config| config.search = SearchRule::Best);
    assert_eq!((youngest, best), (None, None));
}

#[test]
fn a_pool_remembers_so_many_events_and_no_more() {
    let maximum = 1 << 24;
    let given = maximum + 1;
    let refused = Some(ConfigError::Events { given, maximum });
    assert_eq!(refusal(|config| config.events = (1 << 24) + 1), refused);
    assert_eq!(refusal(|config| config.events = 0), None);
}

#[test]
fn limits_are_within_the_device() {
    let capacity = CAPACITY;
    let minimum = GRANULE;
    for (change, given) in [
        (
            (|config| config.limit = PoolLimit::Bytes(MORE)) as fn(&mut MemoryPoolConfig),
            MORE,
        ),
        (|config| config.limit = PoolLimit::Bytes(1), 1),
    ] {
        let expected = ConfigError::Limit {
            given,
            minimum,
            capacity,
        };
        assert_eq!(refusal(change), Some(expected));
    }
    let given = 101;
    assert_eq!(
        refusal(|config| config.limit = PoolLimit::Percent(101)),
        Some(ConfigError::LimitPercent { given })
    );
    let given = 0;
    assert_eq!(
        refusal(|config| config.limit = PoolLimit::Percent(0)),
        Some(ConfigError::LimitPercent { given })
    );
    assert_eq!(
        refusal(|config| config.limit = PoolLimit::Percent(100)),
        None
    );
}

#[test]
fn a_hundred_per_cent_of_a_device_is_all_of_it() {
    let limit = |percent: u32| {
        let config = MemoryPoolConfig {
            limit: PoolLimit::Percent(percent),
            ..MemoryPoolConfig::default()
        };
        let source = Arc::new(Books::new(1023 * GRANULE));
        let pool = DevicePool::new(source, Timeline::new(), &config).unwrap();
        pool.limit()
    };
    assert_eq!(limit(100), 1023 * GRANULE);
    assert_eq!(limit(50), 1023 * GRANULE / 2);
}

#[test]
fn what_the_limit_makes_ineffective_is_refused() {
    let (given, limit) = (MORE, CAPACITY);
    let threshold = ConfigError::ReleaseThreshold { given, limit };
    assert_eq!(
        refusal(|config| config.release_threshold = MORE),
        Some(threshold)
    );
    let front = |given| {
        let (minimum, maximum) = (512, limit);
        Some(ConfigError::FrontBytes {
            given,
            minimum,
            maximum,
        })
    };
    assert_eq!(
        refusal(|config| config.front_bytes = Some(MORE)),
        front(MORE)
    );
    assert_eq!(refusal(|config| config.front_bytes = Some(100)), front(100));
    let exact = ConfigError::ExactFrom { given, limit };
    assert_eq!(
        refusal(|config| config.exact_blocks = ExactBlocks::From(MORE)),
        Some(exact)
    );
    let growth = Some(ConfigError::GrowthPercent { given: 101 });
    assert_eq!(refusal(|config| config.growth_percent = 101), growth);
}

#[test]
fn blocks_of_exact_size_are_neither_all_nor_none() {
    for (given, change) in [
        (
            0,
            (|config| config.exact_blocks = ExactBlocks::From(0)) as fn(&mut MemoryPoolConfig),
        ),
        (1, |config| config.exact_blocks = ExactBlocks::From(1)),
        (GRANULE, |config| {
            config.exact_blocks = ExactBlocks::From(GRANULE);
        }),
    ] {
        let multiple = GRANULE;
        let all = ConfigError::ExactFromAll { given, multiple };
        assert_eq!(refusal(change), Some(all));
    }
    let from = |config: &mut MemoryPoolConfig| config.exact_blocks = ExactBlocks::From(GRANULE + 1);
    assert_eq!(refusal(from), None);
    // The largest request there can be is smaller than the limit, which is no multiple of a Block's size.
    let none = |config: &mut MemoryPoolConfig| {
        config.limit = PoolLimit::Bytes(CAPACITY - 1);
        config.exact_blocks = ExactBlocks::From(CAPACITY - 1);
    };
    let (given, limit) = (CAPACITY - 1, CAPACITY - 1);
    assert_eq!(refusal(none), Some(ConfigError::ExactFrom { given, limit }));
}

#[test]
fn a_boundary_of_small_requests_lies_between_requests() {
    for given in [1, CAPACITY + 1, MORE] {
        let config = MemoryPoolConfig {
            small_below: Some(given),
            ..MemoryPoolConfig::default()
        };
        let source = Arc::new(Books::with_pages(CAPACITY));
        let refused = DevicePool::new(source, Timeline::new(), &config).err();
        let limit = CAPACITY;
        assert_eq!(refused, Some(ConfigError::SmallBelow { given, limit }));
    }
    assert_eq!(refusal(|config| config.small_below = Some(2)), None);
    assert_eq!(refusal(|config| config.small_below = Some(0)), None);
}

#[test]
fn nothing_at_hand_beyond_what_shelves_hold() {
    let maximum = 64 * 8 * (64 << 10);
    for (given, refused) in [
        (maximum, None),
        (
            maximum + 1,
            Some(ConfigError::FrontBytes {
                given: maximum + 1,
                minimum: 512,
                maximum,
            }),
        ),
    ] {
        let config = MemoryPoolConfig {
            front_bytes: Some(given),
            ..MemoryPoolConfig::default()
        };
        let source = Arc::new(Books::new(1 << 30));
        let made = DevicePool::new(source, Timeline::new(), &config);
        assert_eq!(made.err(), refused);
    }
}

#[test]
fn a_pool_cannot_be_finer_than_its_index() {
    let mut config = MemoryPoolConfig {
        alignment: 32,
        ..MemoryPoolConfig::default()
    };
    let source = Arc::new(Books::new(192 << 30));
    let refused = DevicePool::new(source.clone(), Timeline::new(), &config).err();
    assert!(matches!(
        refused,
        Some(ConfigError::LimitTooLarge { alignment: 32, .. })
    ));
    config.alignment = 64;
    assert!(DevicePool::new(source, Timeline::new(), &config).is_ok());
}
