/** An answer that would like to be more than words. */

import { expect, test } from 'vitest';
import { address } from './support/address.ts';
import { staged } from './support/staged.ts';

const HOSTILE = [
  '<script>document.title = "taken"</script>',
  '<img src="x" onerror="document.title = \'taken\'">',
  '<iframe srcdoc="<script>parent.document.title=1</script>"></iframe>',
  '<style>body { display: none }</style>',
  '[click me](javascript:document.title=1)',
  '[and me](data:text/html,<script>1</script>)',
  '![a picture](http://127.0.0.1:9/pixel.png)',
  '<a href="javascript:document.title=1">or me</a>',
  '<form action="http://127.0.0.1:9/"><input name="q" autofocus></form>',
  '<base href="http://127.0.0.1:9/">',
];

test(
  'hostile Markdown stays text: nothing runs, nothing is asked for, nothing leads away',
  staged(async (stage) => {
    const script = `!say ${HOSTILE.join('\\n\\n')}\\n\\nThat was all.`;
    const { uri } = await (await stage.client()).answered(script);
    const page = await stage.open(address(uri));
    await page.getByText('That was all.', { exact: true }).waitFor();
    expect(await page.title()).not.toBe('taken');
    const said = page.getByRole('main');
    expect(await said.locator('iframe, script, style, base, form[action]').count()).toBe(0);
    expect(await said.locator('[href^="javascript:" i], [href^="data:" i], [onerror], [srcdoc]').count()).toBe(0);
    expect(await said.locator('img[src^="http"]').count()).toBe(0);
    // The guard has seen neither a request nor a violation: the page did not even try.
  }),
);
