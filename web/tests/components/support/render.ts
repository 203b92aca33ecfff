/** Renders components for tests and finds elements by role and accessible name. */

import { type Component, type ComponentProps, flushSync, mount, tick, unmount } from 'svelte';
import { writable } from 'svelte/store';
import { type Mock, vi } from 'vitest';
import type { Chat, ChatState, Session, SessionState } from '../../../src/ahp/index.ts';
import { Page } from '../../../src/core/page.svelte.ts';
import WithPage from './WithPage.svelte';

const mounted: (() => void)[] = [];

export function unmountAll(): void {
  for (const remove of mounted.splice(0)) remove();
  document.body.replaceChildren();
}

// biome-ignore lint/suspicious/noExplicitAny: any component
export function render<C extends Component<any, any>>(component: C, props: ComponentProps<C>): HTMLElement {
  const target = document.createElement('div');
  document.body.append(target);
  const instance = mount(component, { target, props });
  flushSync();
  mounted.push(() => void unmount(instance));
  return target;
}

/** Renders a component in a page whose host is not connected. */
// biome-ignore lint/suspicious/noExplicitAny: any component
export function renderInPage<C extends Component<any, any>>(
  component: C,
  props: ComponentProps<C>,
): { readonly container: HTMLElement; readonly page: Page } {
  const page = new Page();
  const container = render(WithPage, { page, of: component, properties: props as Record<string, unknown> });
  return { container, page };
}

/** Roles of elements without a `role` attribute, as far as the tests use them. */
const NATIVE_ROLES: Readonly<Record<string, string>> = {
  button: 'button',
  'a[href]': 'link',
  textarea: 'textbox',
  'input:not([type])': 'textbox',
  'input[type="text"]': 'textbox',
  section: 'region',
  li: 'listitem',
};

function accessibleName(element: Element): string {
  return (element.getAttribute('aria-label') ?? element.textContent ?? '').replace(/\s+/g, ' ').trim();
}

export function allByRole(role: string, root: ParentNode = document.body): readonly HTMLElement[] {
  const native = Object.entries(NATIVE_ROLES).flatMap(([selector, of]) =>
    of === role ? [`${selector}:not([role])`] : [],
  );
  return [...root.querySelectorAll<HTMLElement>([`[role="${role}"]`, ...native].join(', '))];
}

/** The element with a role whose name is or matches `name`. */
export function byRole(role: string, name?: string | RegExp, root?: ParentNode): HTMLElement {
  const all = allByRole(role, root);
  const isNamed = (element: HTMLElement) => {
    const own = accessibleName(element);
    return name === undefined || (typeof name === 'string' ? own === name : name.test(own));
  };
  const found = all.find(isNamed);
  if (!found) throw new Error(`No ${role} named ${name}. There are: ${all.map(accessibleName).join(' | ')}`);
  return found;
}

export async function click(element: HTMLElement): Promise<void> {
  element.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, cancelable: true }));
  element.click();
  await settle();
}

/** Presses a key on the focused element. */
export async function press(key: string, more: KeyboardEventInit = {}): Promise<KeyboardEvent> {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  (document.activeElement ?? document.body).dispatchEvent(event);
  await settle();
  return event;
}

export async function type(field: HTMLElement, text: string): Promise<void> {
  (field as HTMLInputElement).value = text;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  await settle();
}

/** Waits until pending effects and promises have run. */
export async function settle(): Promise<void> {
  await tick();
  await Promise.resolve();
  await tick();
}

function view<S>(state: S) {
  const value = { state, status: 'live', pending: 0 };
  const { subscribe, set } = writable(value);
  return { subscribe, value, set: (next: S) => set({ ...value, state: next }) };
}

type Methods<T> = { [K in keyof T]?: Mock };

/** A chat with a state; its methods are spies that succeed. */
export function fakeChat(state: Partial<ChatState> = {}) {
  const whole: ChatState = { resource: 'ahp-chat:/1', title: '', status: 1, modifiedAt: '', turns: [], ...state };
  const methods = ['confirm', 'reorder', 'removePendingMessage', 'queue', 'steer', 'resume', 'loadOlder'] as const;
  const spies: Methods<Chat> = Object.fromEntries(methods.map((name) => [name, vi.fn(async () => ({}))]));
  const chatView = view(whole);
  const chat = { uri: whole.resource, view: chatView, ...spies } as unknown as Chat;
  return { chat, spies, setState: (next: Partial<ChatState>) => chatView.set({ ...whole, ...next }) };
}

export function fakeSession(state: Partial<SessionState> = {}): Session {
  return { uri: 'p:/1', view: view(state) } as unknown as Session;
}
