// npm's `@anthropic-ai/sdk` as a client of the gateway. Runs the jobs of its last argument one after the other and
// prints the results as one line of JSON, which the test checks. `client.py` does the same.
import { createRequire } from 'node:module';

const sdk = createRequire(`${process.env.SDK_HOME}/`)('@anthropic-ai/sdk');
const Anthropic = sdk.default ?? sdk;

const parameters = (job) => ({
  model: job.model ?? 'claude-sonnet-4-5',
  max_tokens: 2000,
  messages: [{ role: 'user', content: job.prompt.repeat(job.times ?? 1) }],
  ...job.parameters,
});

const client = (job) => new Anthropic(job.max_retries === undefined ? {} : { maxRetries: job.max_retries });

const described = (error) => ({
  class: error.constructor._errorName ?? error.name,
  is_api_error: error instanceof Anthropic.APIError,
  status: error.status ?? null,
  type: error.type ?? null,
  message: error.apiMessage ?? error.message,
  request_id: error.requestID ?? null,
});

const attempt = async (facts, work) => {
  try {
    await work(facts);
  } catch (error) {
    facts.error = described(error);
  }
  return facts;
};

// Streams with the helper that assembles the message.
const streamed = (job, messages) =>
  attempt({ text: '', message: null, error: null }, async (facts) => {
    const stream = client(job).messages.stream({ ...parameters(job), ...messages });
    stream.on('text', (text) => (facts.text += text));
    facts.message = await stream.finalMessage();
  });

const jobs = {
  whole: (job) =>
    attempt({ message: null, error: null }, async (facts) => {
      facts.message = await client(job).messages.create(parameters(job));
    }),

  stream: (job) => streamed(job, {}),

  raw: (job) =>
    attempt({ events: [], error: null }, async (facts) => {
      const stream = await client(job).messages.create({ ...parameters(job), stream: true });
      for await (const event of stream) facts.events.push(event);
    }),

  // Answers tool calls until a message has none.
  tools: async (job) => {
    const messages = parameters(job).messages;
    const rounds = [];
    for (;;) {
      const { message, error } = await streamed(job, { messages });
      if (error) return { rounds, error };
      rounds.push(message);
      if (message.stop_reason !== 'tool_use') return { rounds, error: null };
      const calls = message.content.filter((block) => block.type === 'tool_use');
      const results = calls.map((call) => ({
        type: 'tool_result',
        tool_use_id: call.id,
        content: `${call.input.name} is well`,
      }));
      messages.push({ role: 'assistant', content: message.content }, { role: 'user', content: results });
    }
  },

  count: (job) =>
    attempt({ count: null, error: null }, async (facts) => {
      const { model, messages } = parameters(job);
      facts.count = await client(job).messages.countTokens({ model, messages });
    }),

  models: () =>
    attempt({ models: [], error: null }, async (facts) => {
      for await (const model of client({}).models.list()) facts.models.push(model);
    }),

  model: (job) =>
    attempt({ model: null, error: null }, async (facts) => {
      facts.model = await client(job).models.retrieve(job.model);
    }),

  crowd: (job) => Promise.all(job.prompts.map((prompt) => streamed({ prompt }, {}))),

  // Aborts after the first text, but runs on until stdin is closed.
  abort: (job) =>
    attempt({ text: '', error: null }, async (facts) => {
      const stream = client(job).messages.stream(parameters(job));
      stream.on('text', (text) => {
        facts.text += text;
        stream.abort();
      });
      await stream.finalMessage();
    }),
};

const facts = [];
for (const job of JSON.parse(process.argv[2])) facts.push(await jobs[job.do](job));
process.stdout.write(`${JSON.stringify(facts)}\n`);
for await (const _ of process.stdin);
