//! The upstreams' credentials: who gives them to the gateway, who keeps them for the command line.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_cli::{
    CredentialSpec, CredentialStore, CredentialVault, DeviceCode, DeviceLogin, KeptCredential, KeptPlace, LaunchError,
    UpstreamSettings, UpstreamSpec, VaultError, VaultSettings,
};
use hostler_gateway::{
    CredentialError, CredentialSource, DeviceLoginConfig, FileCredential, FixedCredential, GITHUB_URL, Kept,
    MissingCredential, Place, SystemKeyring, device_login,
};
use secrecy::SecretString;

use crate::upstreams;

/// The gateway's side of a vault. Nothing is opened yet.
pub(crate) fn vault(settings: &VaultSettings) -> hostler_gateway::CredentialVault {
    let directory = settings.directory.clone();
    match settings.store {
        CredentialStore::Auto => hostler_gateway::CredentialVault::with_keyring(directory, Arc::new(SystemKeyring)),
        CredentialStore::Keyring => hostler_gateway::CredentialVault::of_keyring(directory, Arc::new(SystemKeyring)),
        CredentialStore::File => hostler_gateway::CredentialVault::of_files(directory),
    }
}

/// What gives an upstream its credential, call by call.
pub(crate) fn source(
    vault: &hostler_gateway::CredentialVault,
    spec: &UpstreamSpec,
) -> Result<Arc<dyn CredentialSource>, LaunchError> {
    Ok(match &spec.credential {
        CredentialSpec::None => Arc::new(FixedCredential(None)),
        CredentialSpec::Variable { key, .. } => Arc::new(FixedCredential(Some(key.clone()))),
        CredentialSpec::File(path) => Arc::new(FileCredential::new(path.clone())),
        CredentialSpec::Missing(sentence) => Arc::new(MissingCredential(sentence.clone())),
        CredentialSpec::Stored { keyring, missing } => {
            Arc::new(vault.source(&spec.name, *keyring, missing.clone()).map_err(upstreams::sentence)?)
        }
    })
}

/// Keeps credentials for the command line. Keyrings may wait for a person: not on a task.
pub(crate) struct Vault;

impl CredentialVault for Vault {
    fn keep(
        &self,
        settings: VaultSettings,
        name: String,
        secret: SecretString,
    ) -> BoxFuture<'static, Result<KeptCredential, VaultError>> {
        off_the_tasks(move || {
            let Kept { place, instead } = vault(&settings).keep(&name, &secret)?;
            Ok(KeptCredential { place: place_of(place), instead })
        })
    }

    fn forget(&self, settings: VaultSettings, name: String) -> BoxFuture<'static, Result<Vec<KeptPlace>, VaultError>> {
        off_the_tasks(move || Ok(vault(&settings).forget(&name)?.into_iter().map(place_of).collect()))
    }

    fn find(
        &self,
        settings: VaultSettings,
        name: String,
        keyring: bool,
    ) -> BoxFuture<'static, Result<Option<KeptPlace>, VaultError>> {
        off_the_tasks(move || {
            let vault = vault(&settings);
            let found = vault.find(&name);
            // Files are looked at by whoever is told of them; what a keyring has is only known to itself.
            let is_file = matches!(found, Some(Place::File(_)));
            if is_file || (found.is_none() && !keyring) {
                return Ok(found.map(place_of));
            }
            Ok(vault.source(&name, true, None)?.current()?.map(|_| KeptPlace::Keyring))
        })
    }
}

fn place_of(place: Place) -> KeptPlace {
    match place {
        Place::Keyring => KeptPlace::Keyring,
        Place::File(path) => KeptPlace::File(path),
    }
}

fn off_the_tasks<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CredentialError> + Send + 'static,
) -> BoxFuture<'static, Result<T, VaultError>> {
    async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|error| VaultError(error.to_string())),
            Err(error) => Err(VaultError(format!("the credentials cannot be reached: {error}"))),
        }
    }
    .boxed()
}

/// Signs in at GitHub.
pub(crate) struct GitHubLogin;

impl DeviceLogin for GitHubLogin {
    fn login(
        &self,
        upstream: UpstreamSpec,
        show: Box<dyn FnOnce(DeviceCode) + Send>,
    ) -> BoxFuture<'static, Result<SecretString, VaultError>> {
        async move {
            let UpstreamSettings::Copilot { github_url, client_id, .. } = &upstream.settings else {
                return Err(VaultError(format!("the {} upstream has no page to sign in", upstream.kind())));
            };
            let url =
                upstreams::address(github_url.as_ref(), GITHUB_URL).map_err(|error| VaultError(error.to_string()))?;
            let config = DeviceLoginConfig::new(url, client_id.clone());
            let show = |code: &hostler_gateway::DeviceCode| {
                show(DeviceCode {
                    code: code.user_code.clone(),
                    url: code.verification_url.to_string(),
                    minutes: code.expires_in.as_secs() / 60,
                });
            };
            device_login(&config, show).await.map_err(|error| VaultError(error.to_string()))
        }
        .boxed()
    }
}
