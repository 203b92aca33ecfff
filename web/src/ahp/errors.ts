/** Errors of the AHP client, each with a message for the user. */

import type { Action, Meta, Uri } from './types/index.ts';

/** The host answered a request with an error. */
export class RpcError extends Error {
  override readonly name = 'RpcError';
  /** The number of JSON-RPC or AHP, see `ErrorCode`. */
  readonly code: number;
  readonly data: unknown;
  /** The host's stable code of the condition (`error.data.code`), such as `sessionNotFound`. */
  readonly errorCode: string | undefined;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
    this.errorCode = readCode(data);
  }
}

/** The host did not respond in time. The request may still have been executed. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';

  constructor(method: string, milliseconds: number) {
    super(`The host did not respond to ${method} within ${milliseconds / 1000} seconds. Try again.`);
  }
}

/** The connection closed before the response, or there is none. */
export class DisconnectedError extends Error {
  override readonly name = 'DisconnectedError';
}

/** The host rejected an action; the state is rolled back. */
export class RejectedError extends Error {
  override readonly name = 'RejectedError';
  readonly channel: Uri;
  readonly action: Action;
  /** What the host says about the rejection, in its own keys. */
  readonly meta: Meta | undefined;

  constructor(channel: Uri, action: Action, reason: string, meta?: Meta) {
    super(reason);
    this.channel = channel;
    this.action = action;
    this.meta = meta;
  }
}

/** A code in data of any shape; hosts may send none. */
function readCode(data: unknown): string | undefined {
  const code = typeof data === 'object' && data !== null && 'code' in data ? data.code : undefined;
  return typeof code === 'string' && code !== '' ? code : undefined;
}

/** An action was sent to a host that no longer knows this client. It may have been applied, so it is not sent again. */
export class UnconfirmedError extends Error {
  override readonly name = 'UnconfirmedError';

  constructor() {
    super('The host restarted and may or may not have applied this action. Check before you try again.');
  }
}

/** The channel does not exist (any more). */
export class ChannelGoneError extends Error {
  override readonly name = 'ChannelGoneError';
  readonly channel: Uri;

  constructor(channel: Uri, reason: string) {
    super(reason);
    this.channel = channel;
  }
}
