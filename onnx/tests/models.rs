//! Models that are written here, message by message: what is read, and what is refused with which words.

#![allow(clippy::unwrap_used)]

mod common;

use arenagrad::graph::{Attention, Builder, DType, GradOptions, Init, Layout};
use arenagrad::optim::{Sgd, train};
use arenagrad::session::Session;
use arenagrad_onnx::proto::tensor_proto::DataType;
use arenagrad_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use arenagrad_onnx::proto::*;
use arenagrad_onnx::{Error, Options, Tensor, Trainable, read, read_file, write};
use common::{model, node, reading, value};
use prost::Message;

fn ints(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        data_type: Some(DataType::Int64 as i32),
        dims: vec![values.len() as i64],
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        data_type: Some(DataType::Float as i32),
        dims: dims.to_vec(),
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

/// y = x·w + b, with a `Reshape` to a shape that is computed from that of x.
fn line() -> ModelProto {
    let graph = GraphProto {
        name: Some("line".into()),
        node: vec![
            node("MatMul", &["x", "w"], &["xw"]),
            node("Add", &["xw", "b"], &["sum"]),
            node("Shape", &["x"], &["shape"]),
            node("Gather", &["shape", "zero"], &["rows"]),
            node("Concat", &["rows", "rest"], &["to"]),
            node("Reshape", &["sum", "to"], &["y"]),
        ],
        initializer: vec![
            floats("w", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            floats("b", &[2], &[0.5, -0.5]),
            ints("zero", &[0]),
            ints("rest", &[2, 1]),
        ],
        input: vec![value("x", DataType::Float, &[1, 3])],
        output: vec![value("y", DataType::Float, &[1, 2, 1])],
        ..GraphProto::default()
    };
    let concat = AttributeProto { name: Some("axis".into()), i: Some(0), ..AttributeProto::default() };
    let mut m = model(graph, 20);
    m.graph.as_mut().unwrap().node[4].attribute.push(concat);
    m
}

/// The words of the error that `change` makes of the line.
fn refusal(change: impl FnOnce(&mut ModelProto)) -> String {
    let mut m = line();
    change(&mut m);
    reading(&m).err().map_or_else(|| "it is read".into(), |e| e.to_string())
}

fn graph(m: &mut ModelProto) -> &mut GraphProto {
    m.graph.as_mut().unwrap()
}

#[test]
fn a_model_runs_and_is_trained_on() {
    let import = reading(&line()).unwrap();
    let mut p = Session::new().compile(&import.graph).unwrap();
    import.load(&mut p).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 0.0, -1.0]);
    p.step().unwrap();
    assert_eq!((p.values::<f32>("y").unwrap(), p.dims("y").unwrap()), (&[-3.5, -4.5][..], &[1, 2, 1][..]));

    let loss = import.graph.extend(|_, value| vec![value("y").square().sum(..).named("loss")]).unwrap();
    let step = train(&loss, "loss", Sgd::new(0.01)).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    p.init(0).unwrap();
    import.load(&mut p).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 0.0, -1.0]);
    p.step().unwrap();
    let before = p.values::<f32>("loss").unwrap()[0];
    p.step().unwrap();
    assert!(p.values::<f32>("loss").unwrap()[0] < before);
}

#[test]
fn the_last_axis_of_a_vector_is_its_own() {
    for (op, expected) in [("Softmax", [0.25, 0.75]), ("Hardmax", [0.0, 1.0])] {
        for opset in [9, 11, 13] {
            let axis = AttributeProto { name: Some("axis".into()), i: Some(-1), ..AttributeProto::default() };
            let softmax = NodeProto { attribute: vec![axis], ..node(op, &["x"], &["y"]) };
            let vector = |name| value(name, DataType::Float, &[2]);
            let g = GraphProto {
                node: vec![softmax],
                input: vec![vector("x")],
                output: vec![vector("y")],
                ..Default::default()
            };
            let mut p = Session::new().compile(&reading(&model(g, opset)).unwrap().graph).unwrap();
            p.values_mut::<f32>("x").unwrap().copy_from_slice(&[0.0, 3f32.ln()]);
            p.step().unwrap();
            let found = p.values::<f32>("y").unwrap();
            assert!(
                found.iter().zip(expected).all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-6),
                "{op} {opset}: {found:?}"
            );
        }
    }
}

#[test]
fn options_say_which_initialisers_are_trained() {
    let m = line().encode_to_vec();
    let trained = |trainable| {
        let import = read(&m, &Options { trainable, ..Options::default() }).unwrap();
        let loss = import.graph.extend(|_, value| vec![value("y").sum(..).named("loss")]).unwrap();
        match loss.grad("loss", &GradOptions::default()) {
            Ok(g) => g.view().output_names.iter().map(|&n| g.view().str(n).to_string()).collect::<Vec<_>>(),
            Err(_) => Vec::new(),
        }
    };
    assert_eq!(trained(Trainable::All), ["y", "loss", "grad.w", "grad.b"]);
    assert_eq!(trained(Trainable::Only(vec!["b*".into()])), ["y", "loss", "grad.b"]);
    assert!(!trained(Trainable::None).iter().any(|n| n.starts_with("grad.")));
}

#[test]
fn shapes_that_are_inputs_are_asked_for() {
    let mut m = line();
    graph(&mut m).input.push(value("to_shape", DataType::Int64, &[2]));
    graph(&mut m).node.push(node("Reshape", &["y", "to_shape"], &["z"]));
    graph(&mut m).output.push(value("z", DataType::Float, &[2, 1]));
    let Err(Error::Values { inputs, .. }) = reading(&m) else { panic_free("values are not asked for") };
    assert_eq!(inputs, ["to_shape"]);
    let values = vec![("to_shape".to_string(), Tensor::of_ints(&[2, 1], vec![2]))];
    let import = read(&m.encode_to_vec(), &Options { values, ..Options::default() }).unwrap();
    let g = import.graph.view();
    assert_eq!(g.dims(g.find_output("z").unwrap())[..], [2, 1]);
    assert!(g.find_leaf("to_shape").is_none());
}

fn panic_free(why: &str) -> ! {
    unreachable!("{why}")
}

#[test]
fn sizes_are_those_of_the_options() {
    let mut m = line();
    let open = Dimension { value: Some(dimension::Value::DimParam("batch".into())), ..Dimension::default() };
    let input = &mut graph(&mut m).input[0].r#type;
    let Some(type_proto::Value::TensorType(t)) = &mut input.as_mut().unwrap().value else { panic_free("no tensor") };
    t.shape.as_mut().unwrap().dim[0] = open;
    let bytes = m.encode_to_vec();
    let error = read(&bytes, &Options::default()).unwrap_err().to_string();
    assert_eq!(error, "axis 0 of input \"x\" has no size: give one for \"batch\"");
    for options in [
        Options { sizes: vec![("batch".into(), 7)], ..Options::default() },
        Options { batch: Some(7), ..Options::default() },
    ] {
        let import = read(&bytes, &options).unwrap();
        let g = import.graph.view();
        assert_eq!(g.dims(g.find_output("y").unwrap())[..], [7, 2, 1]);
    }
}

#[test]
fn wrong_models_are_refused_by_name() {
    assert_eq!(read(b"no model", &Options::default()).unwrap_err().to_string()[..26], *"this is no ONNX model: fai");
    let says = |change: &dyn Fn(&mut ModelProto), words: &str| {
        let said = refusal(change);
        assert!(said.contains(words), "{said:?} has not {words:?}");
    };
    says(&|m| m.graph = None, "it has no graph");
    says(&|m| m.opset_import[0].version = Some(29), "MatMul of opset 29 (node \"xw\"): opset 6 to 28 are read");
    says(
        &|m| graph(m).node[0].op_type = Some("Nonsense".into()),
        "Nonsense of opset 20 (node \"xw\"): there is no rule",
    );
    says(&|m| graph(m).node.swap(0, 1), "reads \"xw\", which this or a later node computes: a circle");
    says(&|m| graph(m).node[0].input[0] = "nothing".into(), "reads \"nothing\", which nothing computes");
    says(&|m| graph(m).node[1].output[0] = "xw".into(), "the name \"xw\" is used for two values");
    let twice = |m: &mut ModelProto| graph(m).initializer.push(floats("w", &[1], &[0.0]));
    says(&twice, "two initialisers are called \"w\"");
    says(&|m| graph(m).initializer[0].dims = vec![-1, 2], "tensor \"w\": a dimension is -1; it must be 0 to 2^31 - 1");
    says(&|m| graph(m).initializer[0].dims = vec![1 << 31], "tensor \"w\": a dimension is 2147483648");
    says(&|m| graph(m).initializer[0].dims = vec![4, 4], "24 bytes for f32[4, 4]");
    says(&|m| graph(m).input[0] = value("x", DataType::Float, &[-1, 3]), "input \"x\": a dimension is -1");
    says(&|m| graph(m).input[0] = value("x", DataType::String, &[1, 3]), "elements of type STRING are not supported");
    says(&|m| graph(m).output[0] = value("z", DataType::Float, &[]), "output \"z\" is computed by no node");
    says(&|m| graph(m).node[0].output[0] = "n".repeat(70_000), "a name has 70000 bytes; at most 65536 are allowed");
    says(&|m| graph(m).node[0].input[1] = "b".into(), "MatMul (node \"xw\"): matmul(f32[1,3], f32[2,1])");
    let far = |m: &mut ModelProto| graph(m).initializer[3] = ints("rest", &[1 << 40, 1 << 40]);
    says(&far, "a dimension is 1099511627776");
}

#[test]
fn graphs_in_graphs_have_a_limit() {
    let yes = TensorProto {
        name: Some("yes".into()),
        data_type: Some(DataType::Bool as i32),
        int32_data: vec![1],
        ..TensorProto::default()
    };
    let nested = |depth: usize| {
        let mut inner = GraphProto {
            node: vec![node("Identity", &["x"], &["y0"])],
            output: vec![value("y0", DataType::Float, &[1, 3])],
            ..GraphProto::default()
        };
        for k in 1..=depth {
            let mut choice = node("If", &["yes"], &[&format!("y{k}")]);
            for name in ["then_branch", "else_branch"] {
                let g = Some(inner.clone()).filter(|_| name == "then_branch").unwrap_or_default();
                choice.attribute.push(AttributeProto { name: Some(name.into()), g: Some(g), ..Default::default() });
            }
            let output = vec![value(&format!("y{k}"), DataType::Float, &[1, 3])];
            inner = GraphProto { node: vec![choice], output, ..GraphProto::default() };
        }
        inner.input = vec![value("x", DataType::Float, &[1, 3])];
        inner.initializer = vec![yes.clone()];
        reading(&model(inner, 20))
    };
    assert!(nested(20).is_ok());
    let said = nested(33).unwrap_err().to_string();
    // The messages of the format have a limit of their own.
    assert!(said.contains("more than 32 deep") || said.contains("recursion limit"), "{said}");
}

#[test]
fn data_in_other_files_stays_in_the_folder() {
    let folder = std::env::temp_dir().join(format!("arenagrad-onnx-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inner")).unwrap();
    std::fs::write(folder.join("secret"), [0; 64]).unwrap();
    let w: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(folder.join("inner/data"), [&[0; 8][..], &w].concat()).unwrap();
    let said = |location: &str, offset: &str| {
        let mut m = line();
        let t = &mut graph(&mut m).initializer[0];
        t.float_data.clear();
        t.data_location = Some(tensor_proto::DataLocation::External as i32);
        let entry = |k: &str, v: &str| StringStringEntryProto { key: Some(k.into()), value: Some(v.into()) };
        t.external_data = vec![entry("location", location), entry("offset", offset)];
        let path = folder.join("inner/model.onnx");
        std::fs::write(&path, m.encode_to_vec()).unwrap();
        let from_bytes = reading(&m).unwrap_err().to_string();
        assert!(from_bytes.contains("read the model by its path"), "{from_bytes}");
        read_file(&path, &Options::default())
            .map_or_else(|e| e.to_string(), |i| format!("{:?}", i.weights[0].1.floats()))
    };
    assert_eq!(said("data", "8"), "Some([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])");
    assert!(said("../secret", "0").contains("is not inside of the model's folder"));
    assert!(said("/etc/hostname", "0").contains("is not inside of the model's folder"));
    assert!(said("data", "9").contains("ends behind the 32 bytes"));
    assert!(said("data", "many").contains("offset is \"many\", no number"));
    assert!(said("gone", "0").contains("the file \"gone\""));
    std::os::unix::fs::symlink(folder.join("secret"), folder.join("inner/link")).unwrap();
    assert!(said("link", "0").contains("is not inside of the model's folder"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn functions_of_the_model_are_inlined() {
    let mut m = line();
    let scale = AttributeProto {
        name: Some("value_float".into()),
        ref_attr_name: Some("by".into()),
        ..AttributeProto::default()
    };
    let mut constant = node("Constant", &[], &["k"]);
    constant.attribute.push(scale);
    let f = FunctionProto {
        name: Some("Scaled".into()),
        domain: Some("mine".into()),
        input: vec!["v".into()],
        output: vec!["out".into()],
        attribute: vec!["by".into()],
        node: vec![constant, node("Mul", &["v", "k"], &["out"])],
        opset_import: m.opset_import.clone(),
        ..FunctionProto::default()
    };
    m.functions.push(f);
    m.opset_import.push(OperatorSetIdProto { domain: Some("mine".into()), version: Some(1) });
    let mut call = node("Scaled", &["y"], &["z"]);
    call.domain = Some("mine".into());
    call.attribute.push(AttributeProto { name: Some("by".into()), f: Some(10.0), ..AttributeProto::default() });
    graph(&mut m).node.push(call);
    graph(&mut m).output = vec![value("z", DataType::Float, &[1, 2, 1])];
    let import = reading(&m).unwrap();
    let mut p = Session::new().compile(&import.graph).unwrap();
    import.load(&mut p).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 0.0, -1.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("z").unwrap(), [-35.0, -45.0]);

    // A function that calls itself.
    m.functions[0].node[1] = graph(&mut m).node.last().unwrap().clone();
    m.functions[0].node[1].input[0] = "v".into();
    m.functions[0].node[1].output[0] = "out".into();
    assert!(reading(&m).unwrap_err().to_string().contains("more than 32 deep"));
}

#[test]
fn half_precision_weights_are_widened_and_results_are_rounded() {
    let mut m = line();
    let g = graph(&mut m);
    let half: Vec<i32> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(|x| half::f16::from_f32(x).to_bits().into()).to_vec();
    g.initializer[0] = TensorProto { data_type: Some(DataType::Float16 as i32), int32_data: half, ..ints("w", &[]) };
    g.initializer[0].dims = vec![3, 2];
    g.initializer[0].int64_data.clear();
    g.node.truncate(1);
    g.input = vec![value("x", DataType::Float16, &[1, 3])];
    g.output = vec![value("xw", DataType::Float16, &[1, 2])];
    let import = reading(&m).unwrap();
    let mut p = Session::new().compile(&import.graph).unwrap();
    import.load(&mut p).unwrap();
    assert_eq!(p.values::<f32>("w").unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    p.values_mut::<half::f16>("x").unwrap().fill(half::f16::ONE);
    p.step().unwrap();
    assert_eq!(p.values::<half::f16>("xw").unwrap(), [9.0, 12.0].map(half::f16::from_f32));
}

#[test]
fn graphs_are_written_and_read_again() {
    let g = Builder::new("net");
    let x = g.input("x", [2, 5, 8], DType::F32);
    let h0 = g.full(0.0, [5, 6], DType::F32);
    let steps = x.transpose(&[1, 0, 2]).reshape([5, 2, 8]);
    let (y, h, _) =
        arenagrad::nn::lstm(&g, "lstm", steps, g.full(0.0, [2, 6], DType::F32), g.full(0.0, [2, 6], DType::F32));
    let k = g.param("k", [6, 6], DType::F32, Init::Normal(0.5));
    let attended = y.transpose(&[1, 0, 2]).attention(
        y.transpose(&[1, 0, 2]),
        y.transpose(&[1, 0, 2]),
        Attention::default().layout(Layout::Bsd).heads(2),
    );
    let outputs = [
        y.matmul(k).gelu().named("y"),
        h.softmax(-1).named("h"),
        h0.named("zeros"),
        attended.reshape([2, 5, 6]).named("attended"),
    ];
    let graph = g.finish(outputs).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(3).unwrap();
    let import = read(&write(&graph, &p).unwrap(), &Options::default()).unwrap();
    let mut q = Session::new().compile(&import.graph).unwrap();
    q.init(0).unwrap();
    import.load(&mut q).unwrap();
    for p in [&mut p, &mut q] {
        p.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32).sin());
        p.step().unwrap();
    }
    for name in ["y", "h", "zeros", "attended"] {
        let (a, b) = (p.values::<f32>(name).unwrap(), q.values::<f32>(name).unwrap());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{name}: {a:?} {b:?}");
    }
    let step = train(&graph.extend(|_, v| vec![v("y").sum(..).named("loss")]).unwrap(), "loss", Sgd::new(0.1)).unwrap();
    assert!(write(&step, &p).unwrap_err().to_string().contains("updates params"));
}
