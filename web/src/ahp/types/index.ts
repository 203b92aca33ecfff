/** Types of AHP as this client uses them. */

export * from './actions.ts';
export * from './annotations.ts';
export * from './changeset.ts';
export * from './chat.ts';
export * from './commands.ts';
export * from './common.ts';
export * from './customization.ts';
export * from './resource.ts';
export * from './root.ts';
export * from './session.ts';
export * from './terminal.ts';
export * from './toolcall.ts';
