//! What convolutions, pools, columns and resizing refuse when the graph is built: the message names the op, the
//! argument and the numbers that do not fit, and the place is the caller's line.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::window::{
    Conv, Conv2d, Conv3d, ConvTranspose, GridSample, Interpolation, PadMode, Pool1d, Pool2d, Pool3d, Unfold,
};
use arenagrad::graph::{Builder, DType, Var};
use arenagrad::nn;

const HUGE: usize = usize::MAX;

/// Asks that `f` is an error with all of `words` in it.
fn refuses(words: &[&str], f: impl for<'g> Fn(&'g Builder) -> Var<'g>) {
    let g = Builder::new("bad");
    let y = f(&g);
    assert!(!y.is_some(), "{words:?} was accepted");
    let e = g.finish([]).unwrap_err().to_string();
    assert!(words.iter().all(|w| e.contains(w)), "{words:?} are not all in: {e}");
    assert!(e.contains("tests/ops/windows_bad.rs:"), "no place: {e}");
}

fn x<'g>(g: &'g Builder, dims: &[usize]) -> Var<'g> {
    g.input("x", dims, DType::F32)
}

fn w<'g>(g: &'g Builder, dims: &[usize]) -> Var<'g> {
    g.input("w", dims, DType::F32)
}

#[test]
fn convolutions() {
    let three = |words: &[&str], kernel: [usize; 3], o: Conv3d| {
        refuses(&[&["conv3d(f32[1,4,5,6,7]"], words].concat(), |g| {
            let channels = 4usize.checked_div(o.groups).unwrap_or(4);
            let [d, h, width] = kernel;
            x(g, &[1, 4, 5, 6, 7]).conv3d(w(g, &[6, channels, d, h, width]), o)
        });
    };
    let plain = Conv3d::default();
    three(&["stride 0", "height of 6"], [2; 3], plain.stride([1, 0, 1]));
    three(&["dilation 0", "width 2"], [2; 3], plain.dilation([1, 1, 0]));
    three(&["kernel has depth 0"], [0, 2, 2], plain);
    three(&["width 9", "padded input's 8"], [1, 1, 9], plain.pad([0, 0, 0, 0, 1, 0]));
    three(&["depth 7", "padded input's 5"], [3, 1, 1], plain.dilation([3, 1, 1]));
    three(&["3 groups do not divide 4 and 6 channels"], [1; 3], plain.groups(3));
    three(&["groups is 0"], [1; 3], plain.groups(0));
    three(&["height 6", "2147483647"], [1; 3], plain.pad([0, 0, 1 << 40, 0, 0, 0]));
    three(&["depth 5", "2147483647"], [1; 3], plain.pad([HUGE; 6]));
    refuses(&["conv3d(", "w takes 3 channels a group, x has 4 in 1 groups"], |g| {
        x(g, &[1, 4, 2, 2, 2]).conv3d(w(g, &[6, 3, 1, 1, 1]), plain)
    });
    refuses(&["conv3d(", "the kernel's depth 1025 is above 1024: each is a convolution"], |g| {
        x(g, &[1, 4, 1025, 2, 2]).conv3d(w(g, &[6, 4, 1025, 1, 1]), plain)
    });
    refuses(&["conv3d(", "x has shape [1,4,2,2]; rank 5"], |g| {
        x(g, &[1, 4, 2, 2]).conv3d(w(g, &[6, 4, 1, 1, 1]), plain)
    });
    refuses(&["conv3d(", "f32 and f64"], |g| {
        x(g, &[1, 4, 2, 2, 2]).conv3d(g.input("w", [6, 4, 1, 1, 1], DType::F64), plain)
    });
    refuses(&["conv1d(", "length 4", "padded input's 3"], |g| {
        x(g, &[1, 2, 3]).conv1d(w(g, &[2, 2, 4]), Conv::default())
    });
    refuses(&["conv2d(", "stride 0", "width of 3"], |g| {
        x(g, &[1, 2, 3, 3]).conv2d(w(g, &[2, 2, 2, 2]), Conv2d::default().stride([1, 0]))
    });
    refuses(&["conv2d(", "a convolution needs at least one channel and one pixel"], |g| {
        x(g, &[1, 0, 3, 3]).conv2d(w(g, &[2, 0, 2, 2]), Conv2d::default())
    });
    refuses(&["[6, 4, 18446744073709551615, 2, 2] does not fit in memory"], |g| {
        nn::conv3d(g, "n", x(g, &[1, 4, 5, 5, 5]), 6, [HUGE, 2, 2], plain)
    });
    refuses(&["conv3d(", "height 6", "input's 5"], |g| nn::conv3d(g, "n", x(g, &[1, 4, 5, 5, 5]), 6, [2, 6, 2], plain));
}

#[test]
fn transposed_convolutions() {
    let two = |words: &[&str], o: ConvTranspose<2>| {
        refuses(&[&["conv_transpose2d(f32[1,4,3,3], f32[4,3,2,2])"], words].concat(), |g| {
            x(g, &[1, 4, 3, 3]).conv_transpose2d(w(g, &[4, 3, 2, 2]), o)
        });
    };
    let plain = ConvTranspose::default();
    two(&["output_pad 2", "stride 2", "width"], plain.stride([2, 2]).output_pad([1, 2]));
    two(&["stride 0", "height of 3"], plain.stride([0, 1]));
    two(&["dilation 0"], plain.dilation([1, 0]));
    two(&["padding 2 and 2 leave nothing of height 4"], plain.pad([2, 0]));
    two(&["3 groups do not divide 4 and 9 channels"], plain.groups(3));
    two(&["groups is 0"], plain.groups(0));
    two(&["overflows"], plain.stride([1 << 62, 1]));
    two(&["is above 2147483647"], plain.stride([1 << 40, 1]));
    refuses(&["conv_transpose1d(", "w takes 3 channels, x has 4"], |g| {
        x(g, &[1, 4, 3]).conv_transpose1d(w(g, &[3, 2, 2]), ConvTranspose::default())
    });
    refuses(&["conv_transpose3d(", "output_pad 1", "stride 1", "depth"], |g| {
        let o = ConvTranspose::default().output_pad([1, 0, 0]);
        nn::conv_transpose3d(g, "n", x(g, &[1, 2, 3, 3, 3]), 2, [2; 3], o)
    });
    refuses(&["conv_transpose3d(", "the kernel has height 0"], |g| {
        x(g, &[1, 2, 3, 3, 3]).conv_transpose3d(w(g, &[2, 1, 2, 0, 2]), ConvTranspose::default())
    });
    refuses(&["conv_transpose3d(", "5 outputs", "2 groups"], |g| {
        let o = ConvTranspose::default().groups(2);
        nn::conv_transpose3d(g, "n", x(g, &[1, 2, 3, 3, 3]), 5, [2; 3], o)
    });
}

#[test]
fn pools() {
    type Pooling = for<'g> fn(Var<'g>, Pool2d) -> Var<'g>;
    let all: [(&str, Pooling); 4] = [
        ("max_pool2d(", |x, o| x.max_pool2d(o)),
        ("min_pool2d(", |x, o| x.min_pool2d(o)),
        ("sum_pool2d(", |x, o| x.sum_pool2d(o)),
        ("avg_pool2d(", |x, o| x.avg_pool2d(o)),
    ];
    for (name, f) in all {
        let two = |words: &[&str], o: Pool2d| {
            refuses(&[&[name], words].concat(), |g| f(x(g, &[1, 2, 5, 6]), o));
            refuses(&[&[name], words].concat(), |g| f(x(g, &[1, 2, 5, 6]), o.ceil_mode(true)));
        };
        let plain = Pool2d::new([2, 2]);
        two(&["stride 0", "height of 5"], plain.stride([0, 1]));
        two(&["kernel has width 0"], Pool2d::new([2, 0]).stride([1, 1]));
        two(&["height 6", "padded input's 5"], Pool2d::new([6, 2]).stride([1, 1]));
        two(&["padding 2", "height 3"], Pool2d::new([3, 3]).padding([2, 0]));
        two(&["padding 2", "width 3"], Pool2d::new([3, 3]).pad([0, 0, 0, 2]));
        two(&["dilation"], plain.dilation([0, 1]));
        two(&["padding 18446744073709551615"], plain.padding([HUGE, 0]));
        two(&["width 18446744073709551615", "6"], Pool2d::new([2, HUGE]).stride([1, 1]));
        refuses(&[name, "x has shape [2,5,6]; rank 4"], |g| f(x(g, &[2, 5, 6]), plain));
        refuses(&[name, "x has shape"], |g| f(x(g, &[1, 2, 5, 6, 2]), plain));
        refuses(&[name, "i32"], |g| f(g.input("x", [1, 2, 5, 6], DType::I32), plain));
    }
    for (name, f) in &all[2..] {
        let o = Pool2d::new([2, 2]).dilation([2, 1]);
        refuses(&[name, "dilation [2, 1]"], |g| f(x(g, &[1, 2, 5, 6]), o));
    }
    refuses(&["avg_pool2d(", "divisor_override is 0"], |g| {
        x(g, &[1, 2, 5, 6]).avg_pool2d(Pool2d::new([2, 2]).divisor_override(0))
    });
    refuses(&["max_pool2d(", "dilation 2 steps over the height 1"], |g| {
        x(g, &[1, 2, 1, 6]).max_pool2d(Pool2d::new([2, 2]).padding([1, 0]).dilation([2, 1]))
    });
    refuses(&["avg_pool1d(", "length 4", "padded input's 3"], |g| x(g, &[1, 2, 3]).avg_pool1d(Pool1d::new([4])));
    refuses(&["max_pool3d(", "depth 4", "padded input's 3"], |g| {
        x(g, &[1, 2, 3, 5, 5]).max_pool3d(Pool3d::new([4, 1, 1]))
    });
    refuses(&["sum_pool3d(", "padding 2", "width 2"], |g| {
        x(g, &[1, 2, 3, 5, 5]).sum_pool3d(Pool3d::new([2; 3]).padding([0, 0, 2]))
    });
}

#[test]
fn pools_to_a_given_size() {
    refuses(&["adaptive_avg_pool2d(", "output width 0", "6"], |g| x(g, &[1, 2, 5, 6]).adaptive_avg_pool2d([2, 0]));
    refuses(&["adaptive_max_pool1d(", "output length 0", "5"], |g| x(g, &[1, 2, 5]).adaptive_max_pool1d([0]));
    refuses(&["adaptive_max_pool3d(", "depth of x is 0"], |g| x(g, &[1, 2, 0, 3, 3]).adaptive_max_pool3d([1; 3]));
    refuses(&["adaptive_avg_pool2d(", "height 5 to 18446744073709551615"], |g| {
        x(g, &[1, 2, 5, 6]).adaptive_avg_pool2d([HUGE, 2])
    });
    refuses(&["adaptive_avg_pool2d(", "height 5 to 1099511627776"], |g| {
        x(g, &[1, 2, 5, 6]).adaptive_avg_pool2d([1 << 40, 2])
    });
    // Copied out, an axis is 10,000 + 2·18,170 places long: one more on both axes are too many for i32.
    let g = Builder::new("wide");
    assert!(x(&g, &[1, 1, 10_000, 10_000]).adaptive_avg_pool2d([18_170; 2]).is_some());
    refuses(
        &["adaptive_avg_pool2d(", "planes of [1,1,10001,10001] to [18170, 18170] have more places than i32"],
        |g| x(g, &[1, 1, 10_001, 10_001]).adaptive_avg_pool2d([18_170; 2]),
    );
    refuses(&["adaptive_avg_pool2d(", "rank 4"], |g| x(g, &[2, 5, 6]).adaptive_avg_pool2d([1, 1]));
}

#[test]
fn columns() {
    let plain = Unfold::new([2, 2]);
    let image = |words: &[&str], o: Unfold| {
        refuses(&[&["im2col("], words].concat(), |g| x(g, &[1, 2, 5, 6]).im2col(o));
        refuses(&[&["col2im("], words].concat(), |g| x(g, &[1, 8, 20]).col2im([5, 6], o));
    };
    image(&["stride 0", "height of 5"], plain.stride([0, 1]));
    image(&["dilation 0"], plain.dilation([1, 0]));
    image(&["kernel has height 0"], Unfold::new([0, 2]));
    image(&["width 7", "padded input's 6"], Unfold::new([2, 7]));
    image(&["2147483647"], plain.pad([0, 1 << 50, 0, 0]));
    refuses(&["im2col(", "empty"], |g| x(g, &[1, 2, 0, 6]).im2col(plain.pad([1; 4])));
    refuses(&["col2im(", "9 rows", "4 elements"], |g| x(g, &[1, 9, 20]).col2im([5, 6], plain));
    refuses(&["col2im(", "21 columns", "4 · 5"], |g| x(g, &[1, 8, 21]).col2im([5, 6], plain));
    refuses(&["col2im(", "empty"], |g| x(g, &[1, 8, 20]).col2im([0, 6], plain));
}

#[test]
fn sizes_and_padding() {
    let mode = Interpolation::Linear;
    refuses(&["interpolate(", "size has width 0", "6"], |g| x(g, &[1, 2, 5, 6]).interpolate(&[3, 0], mode));
    refuses(&["interpolate(", "rank 3", "size [3]"], |g| x(g, &[1, 2, 5, 6]).interpolate(&[3], mode));
    refuses(&["interpolate(", "size has 0 entries"], |g| x(g, &[1, 2]).interpolate(&[], mode));
    refuses(&["interpolate(", "length of x is 0"], |g| x(g, &[1, 2, 0]).interpolate(&[3], mode));
    refuses(&["interpolate(", "length 5 to 1099511627776"], |g| x(g, &[1, 2, 5]).interpolate(&[1 << 40], mode));
    refuses(&["interpolate(", "length 5 to 9223372036854775807"], |g| x(g, &[1, 2, 5]).interpolate(&[HUGE], mode));
    refuses(&["upsample(", "scale 18446744073709551615"], |g| nn::upsample(x(g, &[1, 2, 5]), HUGE, mode));
    refuses(&["interpolate(", "0"], |g| nn::upsample(x(g, &[1, 2, 5]), 0, mode));
    refuses(&["pad(", "5 and 0", "Reflect gives 4"], |g| x(g, &[5]).pad_with(&[5], &[0], PadMode::Reflect));
    refuses(&["pad(", "6 and 0", "Circular gives 5"], |g| x(g, &[5]).pad_with(&[6], &[0], PadMode::Circular));
}

/// What comes behind a failed operation adds nothing: the first error stays.
fn keep_the_first_error(all: &[for<'g> fn(Var<'g>) -> Var<'g>]) {
    for (k, f) in all.iter().enumerate() {
        let g = Builder::new("failed");
        let failed = x(&g, &[2, 4]).reshape([5]);
        let first = g.error().unwrap().message;
        assert!(!f(failed).is_some(), "{k}");
        assert_eq!(g.finish([]).unwrap_err().message, first, "{k}");
    }
}

#[test]
fn the_first_error_stays() {
    keep_the_first_error(&[
        |x| x.max_pool1d(Pool1d::new([2])),
        |x| x.min_pool2d(Pool2d::new([2, 2])),
        |x| x.sum_pool2d(Pool2d::new([2, 2])),
        |x| x.avg_pool3d(Pool3d::new([2; 3])),
        |x| x.avg_pool2d(Pool2d::new([2, 2]).divisor_override(3)),
        |x| x.max_pool1d_with_indices(Pool1d::new([2]))[0],
        |x| x.max_pool2d_with_indices(Pool2d::new([2, 2]))[1],
        |x| x.max_pool3d_with_indices(Pool3d::new([2; 3]))[1],
        |x| x.adaptive_avg_pool2d([1, 1]),
        |x| x.im2col(Unfold::new([2, 2])),
        |x| x.interpolate(&[3], Interpolation::Linear),
        |x| nn::upsample(x, 2, Interpolation::Linear),
        |x| x.pixel_shuffle(2),
        |x| x.pixel_unshuffle(2),
        |x| x.grid_sample(x, GridSample::default()),
        |x| x.grid_sample(x.builder().full(0.0, [1, 2, 2, 2], DType::F32), GridSample::default()),
        |x| x.builder().full(0.0, [1, 2, 2, 2], DType::F32).grid_sample(x, GridSample::default()),
    ]);
}

/// The operand `y` of `f` is of another builder.
fn refuse_another_builder(name: &str, f: for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>) {
    let (g, other) = (Builder::new("here"), Builder::new("other"));
    let y = f(x(&g, &[1, 2, 2, 2]), x(&other, &[1, 2, 2, 2]));
    assert!(!y.is_some(), "{name}");
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains(&format!("{name}: a value of another builder is used")), "{name}: {e}");
}

#[test]
fn operands_of_another_builder_are_refused() {
    refuse_another_builder("grid_sample", |x, y| x.grid_sample(y, GridSample::default()));
    #[cfg(feature = "signal")]
    refuse_another_builder("fft_conv", |x, y| x.fft_conv(y, arenagrad::graph::signal::ConvPart::Full));
}

#[cfg(feature = "recurrent")]
#[test]
fn scans_keep_the_first_error_and_refuse_operands_of_another_builder() {
    use arenagrad::graph::recurrent::{SelectiveScan, Ssd};
    keep_the_first_error(&[
        |x| x.ssd(x, x, x, x, Ssd::default())[0],
        |x| x.ssd(x, x, x, x, Ssd::default().h0(x))[1],
        |x| x.selective_scan(x, x, x, x, SelectiveScan::default().d(x))[1],
        |x| x.gated_delta_net(x, x, x, x, Some(x))[1],
        |x| nn::mamba(x.builder(), "m", x, nn::Mamba::default()),
    ]);
    refuse_another_builder("ssd", |x, y| x.ssd(x, x, x, y, Ssd::default())[0]);
    refuse_another_builder("ssd", |x, y| x.ssd(x, x, x, x, Ssd::default().d(y))[1]);
}
