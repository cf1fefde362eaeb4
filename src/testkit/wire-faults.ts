import type { RpcOutcome } from '../chain/rpc.ts'
import type { RpcFailure } from '../chain/rpc-errors.ts'
import type { WireFaultName } from './faults.ts'
import type { ErrorObject } from './provider-errors.ts'
import type { Random } from './random.ts'

/** What becomes of a batch between the node and its client. */
export type WireOutcome =
  | {
      readonly kind: 'answers'
      /** One for each call, in their order. */
      readonly answers: readonly RpcOutcome[]
      /** Positions of the calls whose answers go out, in the order in which they do. */
      readonly onWire: readonly number[]
    }
  | { readonly kind: 'cut'; readonly midAnswer: boolean }
  | { readonly kind: 'hang' }
  | {
      readonly kind: 'http'
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      readonly body: string
    }
  | { readonly kind: 'batch-error'; readonly error: ErrorObject }

/** Seconds that a rate-limited client is told to wait. */
const RETRY_AFTER_SECONDS = 1

const HTML_PAGE = '<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>'

const NO_ANSWER: RpcOutcome = {
  ok: false,
  error: { meaning: 'unanswered', message: 'the batch holds no answer to this call' },
}

function missing(answers: readonly RpcOutcome[], random: Random): WireOutcome {
  const lost = new Set(answers.map((_, i) => i).filter(() => random.chance(0.4)))
  if (lost.size === 0 && answers.length > 0) lost.add(random.int(0, answers.length - 1))
  return {
    kind: 'answers',
    answers: answers.map((answer, i) => (lost.has(i) ? NO_ANSWER : answer)),
    onWire: answers.map((_, i) => i).filter((i) => !lost.has(i)),
  }
}

/** Erigon's refusal of a whole batch (C13). */
export function tooLargeBatch(size: number, limit: number): ErrorObject {
  return { code: -32000, message: `batch limit ${limit} exceeded: ${size} requests given` }
}

/** The outcome of a fault of the wire. */
export function wireOutcome(fault: WireFaultName, answers: readonly RpcOutcome[], random: Random): WireOutcome {
  switch (fault) {
    case 'cut':
    case 'cutMidAnswer':
      return { kind: 'cut', midAnswer: fault === 'cutMidAnswer' }
    case 'hang':
      return { kind: 'hang' }
    case 'rateLimited':
      return {
        kind: 'http',
        status: 429,
        headers: { 'retry-after': String(RETRY_AFTER_SECONDS) },
        body: 'Too Many Requests',
      }
    case 'htmlPage':
      return { kind: 'http', status: 502, headers: { 'content-type': 'text/html' }, body: HTML_PAGE }
    case 'batchRefused':
      return { kind: 'batch-error', error: tooLargeBatch(answers.length, Math.max(1, answers.length - 1)) }
    case 'missingAnswers':
      return missing(answers, random)
    case 'shuffledAnswers':
      return { kind: 'answers', answers, onWire: random.shuffle(answers.map((_, i) => i)) }
  }
}

/** What a transport says of each call when no answer came: the same that Tidemark's HTTP transport says. */
export function failureOf(outcome: Exclude<WireOutcome, { kind: 'answers' | 'batch-error' }>): RpcFailure {
  if (outcome.kind === 'cut') return { meaning: 'unreachable', message: 'unreachable' }
  if (outcome.kind === 'hang') return { meaning: 'unanswered', message: 'unanswered' }
  const seconds = outcome.headers['retry-after']
  return {
    message: '',
    status: outcome.status,
    ...(seconds === undefined ? {} : { retryAfterMs: Number(seconds) * 1_000 }),
  }
}
