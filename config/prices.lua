-- Prices of models, in US dollars for a million tokens: what `:cost` and budgets in money count by.
--
-- They hold at the host that is named, and nowhere else; a date after a model's name changes nothing. What isn't here is
-- unknown, not free. `prices` in your config comes first. input: read; cache_read: read from the provider's cache;
-- cache_write: written into it (for five minutes, at Anthropic); output: written, thoughts too. Where the price of a cache
-- isn't known, its tokens count as input. above: a request that reads more tokens than this costs `input_factor` and
-- `output_factor` times as much, with all of its tokens. until_day: the last day of a row; then the next one of the model holds.

local prices = {}

local function at(host, rows)
  for _, row in rows do
    row.host = host
    table.insert(prices, row)
  end
end

-- From platform.claude.com/docs/en/about-claude/pricing, as it was on 2026-10-24.
at("api.anthropic.com", {
  { model = "claude-fable-5-1", input = 10, cache_read = 0.25, cache_write = 12.5, output = 50 },
  { model = "claude-fable-5", input = 10, cache_read = 1, cache_write = 12.5, output = 50 },
  { model = "claude-opus-5-5", input = 4, cache_read = 0.2, cache_write = 5, output = 20 },
  { model = "claude-opus-5", input = 5, cache_read = 0.5, cache_write = 6.25, output = 25 },
  { model = "claude-opus-4-8", input = 5, cache_read = 0.5, cache_write = 6.25, output = 25 },
  { model = "claude-opus-4-7", input = 5, cache_read = 0.5, cache_write = 6.25, output = 25 },
  { model = "claude-opus-4-6", input = 5, cache_read = 0.5, cache_write = 6.25, output = 25 },
  { model = "claude-opus-4-5", input = 5, cache_read = 0.5, cache_write = 6.25, output = 25 },
  { model = "claude-opus-4-1", input = 15, cache_read = 1.5, cache_write = 18.75, output = 75 },
  { model = "claude-sonnet-5-5", input = 2, cache_read = 0.1, cache_write = 2.5, output = 10 },
  { model = "claude-sonnet-5", input = 2, cache_read = 0.2, cache_write = 2.5, output = 10 },
  { model = "claude-sonnet-4-6", input = 3, cache_read = 0.3, cache_write = 3.75, output = 15 },
  { model = "claude-sonnet-4-5", input = 3, cache_read = 0.3, cache_write = 3.75, output = 15 },
  { model = "claude-haiku-5-5", input = 0.1, cache_read = 0.01, cache_write = 0.125, output = 0.5,
    above = 100000, input_factor = 5, output_factor = 5 },
  { model = "claude-haiku-4-5", input = 1, cache_read = 0.1, cache_write = 1.25, output = 5 },
})

-- From developers.openai.com/api/docs/pricing and the pages of the models, as they were on 2026-11-18.
at("api.openai.com", {
  { model = "gpt-6.2-astra", input = 8, output = 40, above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-6.2-sol", input = 2, cache_read = 0.1, cache_write = 2.5, output = 10,
    above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-6.1-sol", input = 2, cache_read = 0.1, cache_write = 2.5, output = 10,
    above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-6-astra", input = 10, cache_read = 1, cache_write = 12.5, output = 50,
    above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-6-sol", input = 2, cache_read = 0.2, cache_write = 2.5, output = 10,
    above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-6-luna", input = 0.1, cache_read = 0.01, cache_write = 0.125, output = 0.5,
    above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-5.6-terra", input = 2, cache_read = 0.2, cache_write = 2.5, output = 12,
    above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-5.6-luna", input = 0.2, cache_read = 0.02, cache_write = 0.25, output = 1.2,
    above = 272000, input_factor = 2, output_factor = 1.5 },
  { model = "gpt-5.4-mini", input = 0.75, cache_read = 0.075, output = 4.5 },
  { model = "gpt-5.2", input = 1.75, cache_read = 0.175, output = 14 },
  { model = "gpt-5.1", input = 1.25, cache_read = 0.125, output = 10 },
  { model = "gpt-5", input = 1.25, cache_read = 0.125, output = 10 },
  { model = "gpt-5-mini", input = 0.25, cache_read = 0.025, output = 2 },
  { model = "gpt-5-nano", input = 0.05, cache_read = 0.005, output = 0.4 },
  { model = "gpt-4.1", input = 2, cache_read = 0.5, output = 8 },
  { model = "gpt-4.1-mini", input = 0.4, cache_read = 0.1, output = 1.6 },
  { model = "gpt-4.1-nano", input = 0.1, cache_read = 0.025, output = 0.4 },
  { model = "gpt-4o", input = 2.5, cache_read = 1.25, output = 10 },
  { model = "gpt-4o-mini", input = 0.15, cache_read = 0.075, output = 0.6 },
})

-- From ai.google.dev/gemini-api/docs/pricing (paid tier, text), as it was on 2026-10-07.
at("generativelanguage.googleapis.com", {
  { model = "gemini-3.8-flash", until_day = "2026-12-31", input = 0.75, cache_read = 0.075, output = 3.75 },
  { model = "gemini-3.8-flash", input = 1.5, cache_read = 0.15, output = 7.5 },
  { model = "gemini-3.6-flash", until_day = "2026-12-31", input = 0.75, cache_read = 0.075, output = 3.75 },
  { model = "gemini-3.6-flash", input = 1.5, cache_read = 0.15, output = 7.5 },
  { model = "gemini-3.5-flash-lite", input = 0.3, cache_read = 0.03, output = 2.5 },
  { model = "gemini-3-flash-preview", input = 0.5, cache_read = 0.05, output = 3 },
  { model = "gemini-3.1-pro-preview", input = 2, cache_read = 0.2, output = 12,
    above = 200000, input_factor = 2, output_factor = 1.5 },
  { model = "gemini-2.5-pro", input = 1.25, cache_read = 0.125, output = 10,
    above = 200000, input_factor = 2, output_factor = 1.5 },
  { model = "gemini-2.5-flash", input = 0.3, cache_read = 0.03, output = 2.5 },
  { model = "gemini-2.5-flash-lite", input = 0.1, cache_read = 0.01, output = 0.4 },
})

return prices
