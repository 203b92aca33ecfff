/** URLs and landmarks of the page. */

import type { Locator, Page } from 'playwright-core';
import type { Uri } from '../../src/ahp/index.ts';
import { formatRoute } from '../../src/core/route.ts';

/** The path of a session. */
export function sessionPath(session: Uri, chat?: Uri): string {
  return formatRoute({ view: 'session', session, ...(chat && { chat }) });
}

/** The session list: a sidebar, or the main screen on a phone. */
export function sessionsPane(page: Page): Locator {
  return page.locator('[role=main], [role=complementary]').and(page.getByLabel('Sessions', { exact: true }));
}
