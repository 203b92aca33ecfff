//! The commands: requests of clients, one row each. All of them are part of 0.9, the oldest supported version.

use ahp_types::errors::json_rpc_error_codes::{INVALID_PARAMS, METHOD_NOT_FOUND};

use super::HostSupport::{self, NotOffered, Offered};
use crate::rpc::RpcError;

/// Properties of a command.
#[derive(Debug)]
pub(crate) struct CommandRow {
    pub(crate) name: &'static str,
    /// The kind of channel that it names.
    pub(crate) channel: &'static str,
    /// Its parameters besides the channel.
    pub(crate) params: &'static str,
    pub(crate) result: &'static str,
    /// Codes of its specific errors.
    pub(crate) errors: &'static [i32],
    pub(crate) support: HostSupport,
    /// Error code if it is not offered.
    pub(crate) refusal_code: i32,
}

/// The row of a command that this host carries out.
///
/// # Errors
/// The answer, if the host does not offer it.
pub(crate) fn require_offered(method: &str) -> Result<&'static CommandRow, RpcError> {
    let Some(command) = ALL.iter().find(|command| command.name == method) else {
        return Err(RpcError::unknown_method(method));
    };
    match command.support {
        Offered => Ok(command),
        NotOffered(what) => Err(RpcError::new(command.refusal_code, format!("this host does not offer {what}"))),
    }
}

macro_rules! commands {
    ($($name:literal $channel:literal $params:literal => $result:literal $errors:tt $here:expr $(, $refusal:ident)?;)+) => {
        /// All commands.
        pub(crate) static ALL: &[CommandRow] = &[$(CommandRow {
            name: $name,
            channel: $channel,
            params: $params,
            result: $result,
            errors: &$errors,
            support: $here,
            refusal_code: commands!(@refusal $($refusal)?),
        }),+];
    };
    (@refusal) => { METHOD_NOT_FOUND };
    (@refusal $refusal:ident) => { $refusal };
}

const MULTIPLE_CHATS: HostSupport = NotOffered("several chats in a session");
const AUTOMATIONS: HostSupport = NotOffered("automations");

commands! {
    "initialize" "root" "protocolVersions, clientId, clientInfo?, initialSubscriptions?" => "protocolVersion, serverSeq, snapshots, serverInfo, defaultDirectory, completionTriggerCharacters, terminalCommandPrefix?" [-32005] Offered;
    "reconnect" "root" "clientId, lastSeenServerSeq, subscriptions" => "replay or snapshots" [-32008] Offered;
    "ping" "root" "" => "null" [] Offered;
    "subscribe" "any" "delivery?, view?" => "snapshot" [-32001, -32602] Offered;
    "listSessions" "root" "limit?, cursor?" => "items, nextCursor?" [-32602] Offered;
    "createSession" "the new session" "provider?, workingDirectories?, config?, activeClient?, progressToken?" => "null" [-32002, -32003, -32007, -32602] Offered;
    "disposeSession" "session" "" => "null" [-32001] Offered;
    "createChat" "session" "chat: the default chat" => "null" [-32001, -32602] Offered;
    "disposeChat" "chat" "" => "" [-32602] MULTIPLE_CHATS, INVALID_PARAMS;
    "moveChat" "chat" "destination" => "" [-32602] MULTIPLE_CHATS, INVALID_PARAMS;
    "fetchTurns" "chat" "cursor?" => "{}, after `chat/turnsLoaded` to the requesting connection only" [-32001, -32602] Offered;
    "completions" "chat" "kind, text, offset" => "items" [-32001, -32602] Offered;
    "resolveSessionConfig" "root" "provider?, workingDirectory?, config?" => "schema, values" [-32002, -32602] Offered;
    "sessionConfigCompletions" "root" "provider?, workingDirectory?, config?, property, query?" => "items" [-32002] Offered;
    "authenticate" "root" "resource, token, scopes?, expiresIn?" => "{}" [-32007, -32602] Offered;
    "createTerminal" "terminal" "claim, name?, cwd?, cols?, rows?" => "null" [-32008, -32009, -32010, -32602, -32603] Offered;
    "disposeTerminal" "terminal" "" => "null" [-32008] Offered;
    "resourceRead" "root" "uri, encoding?" => "data, encoding, contentType?" [-32008, -32009, -32602, -32603] Offered;
    "resourceWrite" "root" "uri, data, encoding, createOnly?, mode?, position?, ifMatch?" => "{}" [-32008, -32009, -32010, -32011, -32602, -32603] Offered;
    "resourceList" "root" "uri" => "entries" [-32008, -32009, -32602, -32603] Offered;
    "resourceCopy" "root" "source, destination, failIfExists?" => "{}" [-32008, -32009, -32010, -32602, -32603] Offered;
    "resourceDelete" "root" "uri, recursive?" => "{}" [-32008, -32009, -32602, -32603] Offered;
    "resourceMove" "root" "source, destination, failIfExists?" => "{}" [-32008, -32009, -32010, -32602, -32603] Offered;
    "resourceResolve" "root" "uri, followSymlinks?" => "uri, type, size?, mtime?, ctime?, etag" [-32008, -32009, -32602, -32603] Offered;
    "resourceMkdir" "root" "uri" => "{}" [-32008, -32009, -32010, -32602, -32603] Offered;
    "resourceRequest" "root" "uri, read?, write?" => "{}" [-32008, -32009, -32602, -32603] Offered;
    "createResourceWatch" "root" "uri, recursive?, excludes?, includes?" => "channel" [-32008, -32009, -32602] Offered;
    "invokeChangesetOperation" "changeset" "operationId, target?" => "" [-32601] NotOffered("changesets");
    "listAutomationTriggerDefinitions" "automations" "" => "" [-32601] AUTOMATIONS;
    "runAutomation" "automations" "automation" => "" [-32601] AUTOMATIONS;
    "fetchAutomationRuns" "automations" "automation, cursor?" => "" [-32601] AUTOMATIONS;

    // Hostler's extensions.
    "hostler/listGrants" "root" "" => "items" [] Offered;
    "hostler/allowGrant" "root" "id" => "{}" [-32008] Offered;
    "hostler/revokeGrant" "root" "id" => "{}" [-32008] Offered;
    "hostler/listAudit" "session" "after?, limit?" => "items, next?" [-32001] Offered;
    "hostler/readBackgroundOutput" "chat" "id" => "output, truncated" [-32001, -32602] Offered;
    "hostler/createSignInLink" "root" "minutes?, label?" => "code, expiresAt, path" [-32602, -32603] Offered;
    "hostler/removeImages" "chat" "images: last or all" => "removed" [-32001, -32602] Offered;
    "hostler/listBrowserSessions" "root" "" => "items" [] Offered;
    "hostler/planAttachments" "chat" "attachments" => "ok, reason?, files" [-32001, -32602, -32603] Offered;
    "hostler/search" "root" "query, limit?, offset?, byTurn?, waitForIndex?, includeUnlisted?" => "items, nextOffset?, pendingSessions, indexError?" [-32602, -32603] Offered;
    "hostler/checkSessions" "root" "" => "conversations, findings, omittedFindings" [-32603] Offered;
    "hostler/signOut" "root" "id?" => "signedOut" [-32008, -32603] Offered;
    "hostler/tagSession" "session" "tag: text or null" => "null" [-32001, -32602, -32603] Offered;
    "hostler/listTrust" "root" "" => "items, trustedFolders" [-32603] Offered;
    "hostler/checkTrust" "root" "directory, provider?" => "directory, state, trustedBy?, inheritedFrom?, reason?, configuration, difference?" [-32002, -32008, -32602] Offered;
    "hostler/setTrust" "root" "directory, provider?, decision: trust, trustSubfolders or restrict, fingerprint" => "as `hostler/checkTrust`" [-32002, -32008, -32011, -32602, -32603] Offered;
    "hostler/removeTrust" "root" "directory" => "removed" [-32602, -32603] Offered;
    "hostler/stopBackgroundWork" "chat" "id" => "null" [-32001, -32602] Offered;
}
