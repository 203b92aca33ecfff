//! Fakes for the ports of gateway, credential vault and device login.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_cli::{
    CredentialVaultPort, DeviceCodePrompt, DeviceLogin, GatewayOptions, LaunchError, ProxyLauncher, ProxyOptions,
    RunningProxy, SaveCredentialResult, SavedCredentialLocation, UpstreamSpec, VaultError, VaultSettings,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

/// Starts gateways that only listen, and records their options.
#[derive(Clone, Default)]
pub(crate) struct FakeProxyLauncher {
    pub(crate) launched: Arc<Mutex<Vec<ProxyOptions>>>,
    pub(crate) configured: Arc<watch::Sender<Vec<GatewayOptions>>>,
    pub(crate) shut_down: Arc<Mutex<usize>>,
}

pub(crate) const NONCE: &str = "0123456789abcdef";

impl ProxyLauncher for FakeProxyLauncher {
    fn launch(&self, options: ProxyOptions) -> BoxFuture<'static, Result<Box<dyn RunningProxy>, LaunchError>> {
        let this = self.clone();
        async move {
            let listener = TcpListener::bind(options.listen).await;
            let listener = listener.map_err(|error| LaunchError::Other(format!("No: {error}.")))?;
            let address = listener.local_addr().unwrap();
            this.launched.lock().unwrap().push(options);
            Ok(Box::new(FakeProxy { this, address, _listener: listener }) as Box<dyn RunningProxy>)
        }
        .boxed()
    }
}

struct FakeProxy {
    this: FakeProxyLauncher,
    address: SocketAddr,
    _listener: TcpListener,
}

impl RunningProxy for FakeProxy {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn nonce(&self) -> SecretString {
        NONCE.to_owned().into()
    }

    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError> {
        if options.upstreams.iter().any(|spec| spec.name == "impossible") {
            return Err(LaunchError::Other("Impossible.".to_owned()));
        }
        self.this.configured.send_modify(|all| all.push(options));
        Ok(())
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        *self.this.shut_down.lock().unwrap() += 1;
        async {}.boxed()
    }
}

/// Stores credentials in a map.
#[derive(Clone, Default)]
pub(crate) struct FakeVault {
    pub(crate) stored: Arc<Mutex<BTreeMap<String, String>>>,
    pub(crate) settings: Arc<Mutex<Vec<VaultSettings>>>,
    pub(crate) refusal: Option<&'static str>,
}

impl FakeVault {
    fn location(&self) -> SavedCredentialLocation {
        SavedCredentialLocation::Keyring
    }
}

impl CredentialVaultPort for FakeVault {
    fn store(
        &self,
        vault: VaultSettings,
        name: String,
        secret: SecretString,
    ) -> BoxFuture<'static, Result<SaveCredentialResult, VaultError>> {
        self.settings.lock().unwrap().push(vault.clone());
        self.stored.lock().unwrap().insert(name.clone(), secret.expose_secret().to_owned());
        let saved = match self.refusal {
            Some(why) => SaveCredentialResult {
                location: SavedCredentialLocation::File(vault.directory.join(name)),
                fallback_reason: Some(why.to_owned()),
            },
            None => SaveCredentialResult { location: self.location(), fallback_reason: None },
        };
        async move { Ok(saved) }.boxed()
    }

    fn delete(
        &self,
        _: VaultSettings,
        name: String,
    ) -> BoxFuture<'static, Result<Vec<SavedCredentialLocation>, VaultError>> {
        let removed = self.stored.lock().unwrap().remove(&name);
        let locations = removed.map(|_| self.location()).into_iter().collect();
        async move { Ok(locations) }.boxed()
    }

    fn find(
        &self,
        _: VaultSettings,
        name: String,
        _: bool,
    ) -> BoxFuture<'static, Result<Option<SavedCredentialLocation>, VaultError>> {
        let found = self.stored.lock().unwrap().contains_key(&name).then(|| self.location());
        async move { Ok(found) }.boxed()
    }
}

/// Completes a sign-in when the test asks for it.
#[derive(Clone, Default)]
pub(crate) struct FakeDeviceLogin {
    pub(crate) code_entered: Arc<Notify>,
    pub(crate) requested: Arc<Mutex<Vec<UpstreamSpec>>>,
}

impl DeviceLogin for FakeDeviceLogin {
    fn login(
        &self,
        upstream: UpstreamSpec,
        show: Box<dyn FnOnce(DeviceCodePrompt) + Send>,
    ) -> BoxFuture<'static, Result<SecretString, VaultError>> {
        self.requested.lock().unwrap().push(upstream);
        let code_entered = Arc::clone(&self.code_entered);
        async move {
            show(DeviceCodePrompt {
                user_code: "ABCD-1234".into(),
                verification_url: "https://github.example/login".into(),
                expires_in_minutes: 15,
            });
            code_entered.notified().await;
            Ok("gho_planted".to_owned().into())
        }
        .boxed()
    }
}
