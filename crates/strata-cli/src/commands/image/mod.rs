//! `strata image`: the images of the node.

mod list;
pub(super) mod progress;
mod prune;
mod pull;
mod remove;
mod show;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Pull an image to the node
    Pull(pull::Pull),
    /// List the images of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show an image and its configuration
    Show(show::Show),
    /// Delete images from the node
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
    /// Delete unused images and layers
    Prune(prune::Prune),
}

impl ImageCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Pull(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Remove(command) => command.run(session).await,
            Self::Prune(command) => command.run(session).await,
        }
    }
}

/// The name of an image as it was typed; a path in it is made absolute, since
/// the node that reads it stands in another directory than the user.
pub(super) fn image_name(text: &str) -> std::result::Result<String, String> {
    for prefix in ["oci:", "docker-archive:"] {
        if let Some(path) = text.strip_prefix(prefix).filter(|path| !path.is_empty()) {
            let path = std::path::absolute(path).map_err(|error| error.to_string())?;
            let path = path.to_str().ok_or("the path is not UTF-8")?;
            return Ok(format!("{prefix}{path}"));
        }
    }
    if text.is_empty() {
        return Err("the name of an image is empty".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::image_name;

    #[test]
    fn paths_become_absolute_and_names_stay() {
        let here = std::env::current_dir().unwrap();
        let here = here.display();
        for (typed, named) in [
            ("nginx", "nginx".to_owned()),
            ("oci:./web:v1", format!("oci:{here}/web:v1")),
            ("oci:/srv/web:v1", "oci:/srv/web:v1".to_owned()),
            (
                "docker-archive:x.tar",
                format!("docker-archive:{here}/x.tar"),
            ),
        ] {
            assert_eq!(image_name(typed), Ok(named));
        }
        assert!(image_name("").is_err());
        // The node says what is wrong with it.
        assert_eq!(image_name("oci:"), Ok("oci:".into()));
    }
}
