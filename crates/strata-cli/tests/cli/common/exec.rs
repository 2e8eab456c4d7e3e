//! Processes in pods of the fake node. The first word of a command says what
//! it does: `cat` gives back what it gets, `exit N` ends so, `both` writes to
//! both channels, `signal` waits for one and is killed by it, `vanish` ends
//! without a word, and `shell` gives back what is typed until a `q`.

use strata_api::strata::v1::attach_input::Input as AttachIn;
use strata_api::strata::v1::exec_input::Input;
use strata_api::strata::v1::exec_output::Output;
use strata_api::strata::v1::{
    AttachInput, ExecEnded, ExecInput, ExecOutput, ExecStart, ExecStarted,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::fake::Shared;
use super::pods;
use super::services::Answers;

type Sender = mpsc::Sender<Result<ExecOutput, Status>>;

async fn say(sender: &Sender, output: Output) {
    let output = ExecOutput {
        output: Some(output),
    };
    let _ = sender.send(Ok(output)).await;
}

fn exited(code: i32) -> Output {
    Output::Ended(ExecEnded {
        exit_code: Some(code),
        ..Default::default()
    })
}

fn killed(signal: i32) -> Output {
    Output::Ended(ExecEnded {
        signal: Some(signal),
        reason: format!("killed by signal {signal}"),
        ..Default::default()
    })
}

pub async fn exec(
    shared: Shared,
    mut inputs: Streaming<ExecInput>,
) -> Result<Answers<ExecOutput>, Status> {
    let first = inputs.message().await?.and_then(|first| first.input);
    let Some(Input::Start(start)) = first else {
        return Err(Status::invalid_argument("start comes first"));
    };
    {
        let mut state = shared.lock();
        if !state
            .objects
            .instances
            .iter()
            .any(|one| one.id == start.pod)
        {
            pods::find(&state, &start.pod)?;
        }
        state.calls.push(format!(
            "exec {} stdin={} terminal={:?} user={:?} workdir={:?}",
            start.command.join(" "),
            start.stdin,
            start.terminal.map(|size| (size.rows, size.columns)),
            start.user,
            start.working_directory
        ));
        state.environment = start.environment.clone();
    }
    let (sender, outputs) = mpsc::channel(16);
    tokio::spawn(run(shared, start, inputs, sender));
    Ok(Box::pin(ReceiverStream::new(outputs)))
}

async fn run(shared: Shared, start: ExecStart, mut inputs: Streaming<ExecInput>, sender: Sender) {
    say(&sender, Output::Started(ExecStarted { process_id: 4720 })).await;
    match start.command[0].as_str() {
        "vanish" => return,
        "exit" => {
            let code = start.command[1].parse().unwrap();
            return say(&sender, exited(code)).await;
        }
        "both" => {
            say(&sender, Output::Stdout(b"out \xff\n".to_vec().into())).await;
            say(&sender, Output::Stderr(b"err\n".to_vec().into())).await;
            return say(&sender, exited(0)).await;
        }
        _ => {}
    }
    let shell = start.command[0] == "shell";
    say(&sender, Output::Stdout(b"ready\r\n".to_vec().into())).await;
    while let Ok(Some(message)) = inputs.message().await {
        match message.input {
            Some(Input::Stdin(bytes)) => {
                let quit = shell && bytes.contains(&b'q');
                say(&sender, Output::Stdout(bytes)).await;
                if quit {
                    return say(&sender, exited(5)).await;
                }
            }
            Some(Input::End(_)) => return say(&sender, exited(0)).await,
            Some(Input::Resize(size)) => {
                let call = format!("resize {}x{}", size.columns, size.rows);
                shared.lock().calls.push(call);
            }
            Some(Input::Signal(number)) => {
                shared.lock().calls.push(format!("signal {number}"));
                if start.command[0] == "signal" {
                    return say(&sender, killed(number)).await;
                }
            }
            Some(Input::Start(_)) | None => {}
        }
    }
    shared.lock().calls.push("left".into());
}

/// Gives back what is typed until a `q`; then it ends as the node was told.
pub async fn attach(
    shared: Shared,
    mut inputs: Streaming<AttachInput>,
) -> Result<Answers<ExecOutput>, Status> {
    let first = inputs.message().await?.and_then(|first| first.input);
    let Some(AttachIn::Start(start)) = first else {
        return Err(Status::invalid_argument("start comes first"));
    };
    let code = {
        let mut state = shared.lock();
        pods::find(&state, &start.pod)?;
        state
            .calls
            .push(format!("attach {} {}", start.pod, start.tail));
        state.exit_code
    };
    let (sender, outputs) = mpsc::channel(16);
    tokio::spawn(async move {
        say(&sender, Output::Stdout(b"ready\n".to_vec().into())).await;
        while let Ok(Some(message)) = inputs.message().await {
            match message.input {
                Some(AttachIn::Stdin(bytes)) => {
                    let quit = bytes.contains(&b'q');
                    say(&sender, Output::Stdout(bytes)).await;
                    if quit {
                        return say(&sender, exited(code)).await;
                    }
                }
                Some(AttachIn::End(_)) => shared.lock().calls.push("end".into()),
                Some(AttachIn::Resize(size)) => {
                    let call = format!("resize {}x{}", size.columns, size.rows);
                    shared.lock().calls.push(call);
                }
                Some(AttachIn::Signal(number)) => return say(&sender, killed(number)).await,
                Some(AttachIn::Start(_)) | None => {}
            }
        }
        shared.lock().calls.push("left".into());
    });
    Ok(Box::pin(ReceiverStream::new(outputs)))
}
