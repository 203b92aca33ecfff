/** Parses incomplete JSON as far as possible. Pure. */

import type { Json } from '../ahp/index.ts';

export interface PartialJson {
  /** The parsed value; undefined if nothing can be parsed. */
  readonly value: Json | undefined;
  /** Whether the text is complete. */
  readonly isComplete: boolean;
}

/** Parses text that can end anywhere. Invalid JSON has no value. */
export function parsePartialJson(text: string): PartialJson {
  try {
    return { value: JSON.parse(text) as Json, isComplete: true };
  } catch {
    return { value: new PartialJsonParser(text).value(), isComplete: false };
  }
}

/** Maximum nesting, since the input is untrusted. */
const MAX_NESTING = 100;

class PartialJsonParser {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(): Json | undefined {
    this.#skip();
    const first = this.#text[this.#at];
    if (first === '"') return this.#string().text;
    if (first === '{' || first === '[') {
      if (this.#depth >= MAX_NESTING) return this.#giveUp();
      this.#depth += 1;
      const read = first === '{' ? this.#object() : this.#array();
      this.#depth -= 1;
      return read;
    }
    return this.#scalar();
  }

  #object(): Json {
    const fields: [string, Json][] = [];
    this.#at += 1;
    for (;;) {
      this.#skip(',');
      if (this.#text[this.#at] !== '"') break;
      const key = this.#string();
      this.#skip();
      if (!key.isClosed || this.#text[this.#at] !== ':') break;
      this.#at += 1;
      const value = this.value();
      if (value === undefined) break;
      fields.push([key.text, value]);
    }
    this.#close('}');
    return Object.fromEntries(fields);
  }

  #array(): Json {
    const items: Json[] = [];
    this.#at += 1;
    for (;;) {
      this.#skip(',');
      if (this.#at >= this.#text.length || this.#text[this.#at] === ']') break;
      const value = this.value();
      if (value === undefined) break;
      items.push(value);
    }
    this.#close(']');
    return items;
  }

  #string(): { text: string; isClosed: boolean } {
    const from = this.#at;
    this.#at += 1;
    while (this.#at < this.#text.length && this.#text[this.#at] !== '"')
      this.#at += this.#text[this.#at] === '\\' ? 2 : 1;
    const isClosed = this.#at < this.#text.length;
    const inside = this.#text.slice(from + 1, isClosed ? this.#at : undefined);
    this.#at += 1;
    // Incomplete escapes and surrogate pairs are dropped.
    const whole = isClosed ? inside : inside.replace(/(?<!\\)((?:\\\\)*)\\(u[0-9a-fA-F]{0,3})?$/, '$1');
    try {
      const text = JSON.parse(`"${whole}"`) as string;
      return { text: isClosed ? text : text.replace(/[\uD800-\uDBFF]$/, ''), isClosed };
    } catch {
      return { text: whole, isClosed };
    }
  }

  /** A number at the end may be incomplete, so it is dropped. */
  #scalar(): Json | undefined {
    const found = /^(?:true|false|null|-?\d[\d.eE+-]*)(?=[\s,\]}])/.exec(this.#text.slice(this.#at, this.#at + 64));
    if (!found) return this.#giveUp();
    this.#at += found[0].length;
    try {
      return JSON.parse(found[0]) as Json;
    } catch {
      return this.#giveUp();
    }
  }

  #skip(also = ''): void {
    while (this.#at < this.#text.length && ` \n\r\t${also}`.includes(this.#text[this.#at] ?? '')) this.#at += 1;
  }

  #close(bracket: string): void {
    if (this.#text[this.#at] === bracket) this.#at += 1;
    else this.#giveUp();
  }

  /** Stops parsing. */
  #giveUp(): undefined {
    this.#at = this.#text.length;
    return undefined;
  }
}
