// The search below the view States: units that are on from one token to another.

export function stateSearch() {}
