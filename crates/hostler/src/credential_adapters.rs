//! Connects credential sources to the gateway, and the credential vault to the command line.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_cli::{
    CredentialSpec, CredentialStoreSetting, CredentialVaultPort, DeviceCodePrompt, DeviceLogin, LaunchError,
    SaveCredentialResult, SavedCredentialLocation, UpstreamSettings, UpstreamSpec, VaultError, VaultSettings,
};
use hostler_gateway::{
    CredentialError, CredentialLocation, CredentialSource, FileCredential, FixedCredential, MissingCredential,
    SavedCredential, SystemKeyring,
};
use hostler_gateway_copilot::{DeviceLoginConfig, GITHUB_URL, device_login};
use secrecy::SecretString;

use crate::upstreams;

/// Creates the gateway's side of a vault. Nothing is opened yet.
pub(crate) fn open_vault(settings: &VaultSettings) -> hostler_gateway::CredentialVault {
    let directory = settings.directory.clone();
    match settings.store {
        CredentialStoreSetting::Auto => {
            hostler_gateway::CredentialVault::with_keyring_or_files(directory, Arc::new(SystemKeyring))
        }
        CredentialStoreSetting::Keyring => {
            hostler_gateway::CredentialVault::with_keyring_only(directory, Arc::new(SystemKeyring))
        }
        CredentialStoreSetting::File => hostler_gateway::CredentialVault::with_files(directory),
    }
}

/// Returns the source of an upstream's credential, which is read for each call.
pub(crate) fn credential_source(
    vault: &hostler_gateway::CredentialVault,
    spec: &UpstreamSpec,
) -> Result<Arc<dyn CredentialSource>, LaunchError> {
    Ok(match &spec.credential {
        CredentialSpec::None => Arc::new(FixedCredential(None)),
        CredentialSpec::Variable { key, .. } => Arc::new(FixedCredential(Some(key.clone()))),
        CredentialSpec::File(path) => Arc::new(FileCredential::new(path.clone())),
        CredentialSpec::Missing(sentence) => Arc::new(MissingCredential(sentence.clone())),
        CredentialSpec::Stored { keyring, missing_message: missing } => Arc::new(
            vault.credential_source(&spec.name, *keyring, missing.clone()).map_err(upstreams::to_gateway_error)?,
        ),
    })
}

/// Saves credentials for the command line. Runs on blocking threads, because keyrings may wait for a person.
pub(crate) struct CredentialVaultAdapter;

impl CredentialVaultPort for CredentialVaultAdapter {
    fn store(
        &self,
        settings: VaultSettings,
        name: String,
        secret: SecretString,
    ) -> BoxFuture<'static, Result<SaveCredentialResult, VaultError>> {
        run_blocking(move || {
            let SavedCredential { location, keyring_error } = open_vault(&settings).save(&name, &secret)?;
            Ok(SaveCredentialResult { location: to_saved_location(location), fallback_reason: keyring_error })
        })
    }

    fn delete(
        &self,
        settings: VaultSettings,
        name: String,
    ) -> BoxFuture<'static, Result<Vec<SavedCredentialLocation>, VaultError>> {
        run_blocking(move || Ok(open_vault(&settings).delete(&name)?.into_iter().map(to_saved_location).collect()))
    }

    fn find(
        &self,
        settings: VaultSettings,
        name: String,
        keyring: bool,
    ) -> BoxFuture<'static, Result<Option<SavedCredentialLocation>, VaultError>> {
        run_blocking(move || {
            let vault = open_vault(&settings);
            let found = vault.locate(&name);
            // A file's permissions are checked by its reader; only the keyring knows its contents.
            let is_file = matches!(found, Some(CredentialLocation::File(_)));
            if is_file || (found.is_none() && !keyring) {
                return Ok(found.map(to_saved_location));
            }
            Ok(vault.credential_source(&name, true, None)?.current()?.map(|_| SavedCredentialLocation::Keyring))
        })
    }
}

fn to_saved_location(location: CredentialLocation) -> SavedCredentialLocation {
    match location {
        CredentialLocation::Keyring => SavedCredentialLocation::Keyring,
        CredentialLocation::File(path) => SavedCredentialLocation::File(path),
    }
}

fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CredentialError> + Send + 'static,
) -> BoxFuture<'static, Result<T, VaultError>> {
    async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => result.map_err(|error| VaultError::Storage(error.to_string())),
            Err(error) => Err(VaultError::Storage(format!("failed to access the credential store: {error}"))),
        }
    }
    .boxed()
}

/// Signs in to GitHub.
pub(crate) struct GitHubLogin;

impl DeviceLogin for GitHubLogin {
    fn login(
        &self,
        upstream: UpstreamSpec,
        show: Box<dyn FnOnce(DeviceCodePrompt) + Send>,
    ) -> BoxFuture<'static, Result<SecretString, VaultError>> {
        async move {
            let UpstreamSettings::Copilot { github_url, client_id, .. } = &upstream.settings else {
                return Err(VaultError::NoDeviceLogin(upstream.kind()));
            };
            let url = upstreams::url_or_default(github_url.as_ref(), GITHUB_URL)
                .map_err(|error| VaultError::SignIn(error.to_string()))?;
            let config = DeviceLoginConfig::new(url, client_id.clone());
            let show = |code: &hostler_gateway_copilot::DeviceCode| {
                show(DeviceCodePrompt {
                    user_code: code.user_code.clone(),
                    verification_url: code.verification_url.to_string(),
                    expires_in_minutes: code.expires_in.as_secs() / 60,
                });
            };
            device_login(&config, show).await.map_err(|error| VaultError::SignIn(error.to_string()))
        }
        .boxed()
    }
}
