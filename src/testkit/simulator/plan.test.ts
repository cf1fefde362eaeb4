import { expect, test } from 'vitest'
import { Random } from '../random.ts'
import { swarmOptions } from './options.ts'
import { type ActionKind, drawPlan, MISBEHAVIOURS, MISHAPS, type PlannedAction } from './plan.ts'
import { planOf } from './simulate.ts'
import { wordsOf } from './words.ts'

const SEEDS = Array.from({ length: 300 }, (_, i) => i + 1)
const plans = SEEDS.map((seed) => ({ seed, options: swarmOptions(seed), plan: planOf({ seed }) }))
const all: PlannedAction[] = plans.flatMap(({ plan }) => [...plan])

test('the same seed draws the same options and the same plan', () => {
  for (const { seed, options, plan } of plans.slice(0, 20)) {
    expect(swarmOptions(seed)).toEqual(options)
    expect(planOf({ seed })).toEqual(plan)
  }
})

test('300 seeds hold every kind of action, mishap and misbehaviour', () => {
  const kinds: readonly ActionKind[] = [
    'mine',
    'reorg',
    'reorgDuring',
    'winBack',
    'finality',
    'faults',
    'wait',
    'wallJump',
    'run',
    'overlap',
    'pauseDuring',
    'arm',
    'restart',
    'handlerFault',
    'resume',
    'pause',
    'moveCursor',
    'violate',
  ]
  expect(new Set(all.map((action) => action.kind))).toEqual(new Set(kinds))
  expect(new Set(all.flatMap((action) => (action.kind === 'arm' ? [action.mishap] : [])))).toEqual(new Set(MISHAPS))
  expect(new Set(all.flatMap((action) => (action.kind === 'handlerFault' ? [action.does] : [])))).toEqual(
    new Set(MISBEHAVIOURS),
  )
})

test('whole faults are off in some runs and common in others', () => {
  for (const kind of ['reorg', 'arm', 'handlerFault', 'overlap'] as const) {
    const rates = plans.map(({ options }) => options.rates[kind])
    expect(rates.filter((rate) => rate === 0).length).toBeGreaterThan(60)
    expect(Math.max(...rates) / Math.min(...rates.filter((rate) => rate > 0))).toBeGreaterThan(10)
  }
})

test('one action less changes no other', () => {
  const { options } = plans[0] as (typeof plans)[number]
  const longer = drawPlan(new Random('plan'), { ...options, actions: 30, violation: false })
  const shorter = drawPlan(new Random('plan'), { ...options, actions: 29, violation: false })
  expect(longer.slice(0, 29)).toEqual(shorter)
})

test('every action can be told in words', () => {
  for (const action of all) expect(wordsOf(action)).toMatch(/^\d+\. \S/)
})
