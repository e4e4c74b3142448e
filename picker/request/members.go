package request

type place uint8

const (
	nowhere place = iota
	inBody        // the top-level object
	inPrompt
	inMessage // an object with a role and contents
	inContent
	inPart
	inSampling
	inNvext
)

type use uint8

const (
	unused use = iota
	forModel
	forStream
	forLimit
	forSalt
	forPrompt // also an array
	forRole   // a text with an end mark
	forText
	forContent // also an array
	forParams  // an object with limits
	forRoute
	forNvext // an object with workers and token IDs
	forWorker
	forTokens
	asWritten // the bytes of any value
	asImage   // the hash of any value
	asSeed    // the hash of any value, before the prompt
	asFront   // the bytes of any value, before the prompt
	forFront  // like forContent, before the prompt
	forStore
	// forPrevious is for a response's ID, which is also hashed before the prompt.
	forPrevious
)

func (k Kind) use(in place, key []byte) use {
	switch in {
	case inBody:
		return k.bodyUse(key)
	case inNvext:
		return nvextUse(key)
	case inSampling:
		if string(key) == "max_tokens" {
			return forLimit
		}
		return unused
	case inMessage:
		switch string(key) {
		case "role":
			return forRole
		case "content":
			return forContent
		case "text": // a document of a rerank request
			return forText
		case "cache_control":
			return unused
		}
		return asWritten // such as tool calls
	case inPart:
		switch string(key) {
		case "text", "refusal", "thinking":
			return forText
		case "content":
			return forContent
		case "type", "cache_control": // clients move cache_control between messages of the same prompt
			return unused
		case "image_url", "source", "image", "image_embeds", "input_audio", "audio_url", "video_url", "file",
			"file_data":
			return asImage
		}
		return asWritten
	}
	return unused
}

func (k Kind) bodyUse(key []byte) use {
	if k == Rendered {
		switch string(key) {
		case "token_ids":
			return forPrompt
		case "features":
			return asSeed
		}
		return unused
	}
	switch string(key) {
	case "model":
		return forModel
	case "stream":
		return forStream
	case "nvext":
		return forNvext
	case "route":
		return forRoute
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		return forLimit
	}
	if k == OtherKind {
		return unused
	}
	if k == Responses {
		switch string(key) {
		case "previous_response_id":
			return forPrevious
		case "store":
			return forStore
		}
	}
	switch string(key) {
	case "cache_salt":
		return forSalt
	case "messages", "prompt", "input", "token_ids":
		return forPrompt
	case "query", "documents":
		if k == Rerank {
			return forPrompt
		}
		return asFront
	case "system", "instructions":
		return forFront
	case "tools", "functions", "chat_template", "chat_template_kwargs", "reasoning", "reasoning_effort":
		return asFront
	case "features": // describes the images whose placeholders are in token_ids
		return asSeed
	case "sampling_params":
		return forParams
	}
	return unused
}

func (u use) opens(bracket byte) place {
	switch {
	case u == forPrompt && bracket == '[':
		return inPrompt
	case u == forPrompt:
		return inMessage
	case (u == forContent || u == forFront) && bracket == '[':
		return inContent
	case u == forContent || u == forFront:
		return inPart
	case u == forParams && bracket == '{':
		return inSampling
	case u == forNvext && bracket == '{':
		return inNvext
	}
	return nowhere
}

func (p place) elements() use {
	switch p {
	case inPrompt:
		return forPrompt
	case inContent:
		return forContent
	}
	return unused
}
