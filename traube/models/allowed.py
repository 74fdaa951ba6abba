"""Allowlists: what a model's folder may hold and ask for. What is not here is refused or never opened.

These lists decide before any library sees a folder. `traube.models.vetting` applies them.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from traube.core.config import Strict


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules of sentence-transformers by name, and where their classes live in the library.
MODULES = {
    "Transformer": "base.modules.transformer",
    "Dense": "base.modules.dense",
    "Normalize": "base.modules.normalize",
    "Router": "base.modules.router",
    "Pooling": "sentence_transformer.modules.pooling",
    "StaticEmbedding": "sentence_transformer.modules.static_embedding",
    "LayerNorm": "sentence_transformer.modules.layer_norm",
    "Dropout": "sentence_transformer.modules.dropout",
    "WeightedLayerPooling": "sentence_transformer.modules.weighted_layer_pooling",
}
# Every path under which versions 0 to 6 of sentence-transformers write these classes, and the name.
CLASS_PATHS = {
    f"sentence_transformers.{place}.{name}": name
    for name, module in MODULES.items()
    for place in ("models", f"models.{name}", module, module.rpartition(".")[0])
}

# Architectures of transformers: networks for texts, built from their configuration alone, without
# compiled kernels and without a second configuration inside.
ARCHITECTURES = _names("""
    albert bert big_bird biogpt bloom camembert codegen cohere convbert ctrl data2vec-text deberta deberta-v2
    distilbert electra ernie eurobert flaubert fnet funnel gemma gemma2 gemma3_text gpt2 gpt_neo gpt_neox gptj
    granite gte jina_embeddings_v3 lfm2 llama longformer longt5 megatron-bert mistral mobilebert modernbert
    modernbert-decoder mpnet mt5 nomic_bert nystromformer olmo olmo2 olmo3 openai-gpt opt persimmon phi phi3 qwen2
    qwen3 rembert roberta roberta-prelayernorm roformer smollm3 squeezebert stablelm starcoder2 t5 umt5 xglm xlm
    xlm-roberta xlm-roberta-xl xlnet xmod""")
TOKENIZERS = _names("""
    AlbertTokenizer BarthezTokenizer BartTokenizer BertTokenizer BertweetTokenizer BigBirdTokenizer BioGptTokenizer
    BloomTokenizer CamembertTokenizer CodeGenTokenizer CohereTokenizer ConvBertTokenizer CTRLTokenizer
    DebertaTokenizer DebertaV2Tokenizer DistilBertTokenizer ElectraTokenizer FlaubertTokenizer FNetTokenizer
    FunnelTokenizer GemmaTokenizer GPT2Tokenizer GPTNeoXTokenizer HerbertTokenizer LlamaTokenizer
    LongformerTokenizer MPNetTokenizer MT5Tokenizer MobileBertTokenizer OpenAIGPTTokenizer PhobertTokenizer
    PreTrainedTokenizer Qwen2Tokenizer RemBertTokenizer RobertaTokenizer RoFormerTokenizer SqueezeBertTokenizer
    T5Tokenizer XGLMTokenizer XLMRobertaTokenizer XLMTokenizer XLNetTokenizer""")
TOKENIZERS |= {f"{name}Fast" for name in TOKENIZERS} | {"TokenizersBackend"}
# Files that may be opened where a network or its tokenizer lies. Vocabularies are lists of words: they
# are opened as they are; every JSON file is read here first.
VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "sentencepiece.model", "spiece.model"),
    *("spm.model", "tokenizer.model", "bpe.codes"),
)
VOCABULARY_PARTS = ("merges.txt", "dict.txt")  # no vocabulary without another file
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.safetensors"
# Names that sentence-transformers gave the settings of its Transformer, in the order of their use.
TRANSFORMER_SETTINGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"]
)
FOLDER = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?"  # relative, and never upward
# Patterns of what is downloaded: all names above, in the model's folder and in those of its modules.
DOWNLOADED = tuple(
    f"{place}{name}"
    for place in ("", "*/")
    for name in (
        *("modules.json", "config.json", "config_sentence_transformers.json", "router_config.json"),
        *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json"),
        *(*TRANSFORMER_SETTINGS, *VOCABULARIES, *VOCABULARY_PARTS, "*.safetensors", INDEX),
    )
)
NOT_DOWNLOADED = ("onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*", "similarity/*", ".*", "*/.*")


def _empty(value: Any) -> Any:
    if value:
        raise ValueError("arguments for a library's loader are not allowed, since they could name other files")
    return value


def _folder(path: str) -> str:
    if path != "." and not re.fullmatch(FOLDER, path):
        raise ValueError("no folder inside of the model's")
    return path


Nothing = Annotated[dict[str, Any] | list[Any], AfterValidator(_empty)]
Place = Annotated[str, AfterValidator(_folder)]
Below = Annotated[Place, StringConstraints(pattern=r"^[^.]")]  # a folder of its own
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+| -]{0,64}$")]  # no path, and no name on the hub
Scalar = Annotated[bool | int | float | Word | None, Field(union_mode="left_to_right")]
Values = Scalar | list[Scalar | list[Scalar | list[Scalar]]]
Precision = Literal["float32", "float16", "bfloat16", "float64"]
Attention = Literal["eager", "sdpa"] | None  # any other name is of a kernel, perhaps on the hub
TokenizerClass = Literal[tuple(sorted(TOKENIZERS))] | None  # type: ignore[valid-type]


class Module(Strict):
    """An entry of modules.json."""

    idx: int = 0
    name: Word = ""
    path: Place
    type: Literal[tuple(CLASS_PATHS)]  # type: ignore[valid-type]
    kwargs: Nothing = Field([])


class RouterParameters(Strict):
    default_route: Word | None = None
    allow_empty_key: bool = True
    route_mappings: Nothing = Field({})


class Router(Strict):
    """router_config.json: folders of modules by route."""

    types: dict[Below, Literal[tuple(CLASS_PATHS)]]  # type: ignore[valid-type]
    structure: dict[Word, list[str]]
    parameters: RouterParameters


class Package(Strict):
    """config_sentence_transformers.json: what holds for the whole model."""

    version: dict[Word, Word] = Field({}, alias="__version__")
    model_type: Word = "SentenceTransformer"
    prompts: dict[str, str | None] = Field({})
    default_prompt_name: str | None = None
    similarity_fn_name: Literal["cosine", "dot", "euclidean", "manhattan"] | None = None
    truncate_dim: int | None = None


class Modality(Strict):
    method: Literal["forward"]
    method_output_name: Literal["last_hidden_state", "pooler_output", "logits"]


class Modalities(Strict):
    text: Modality


class TransformerSettings(Strict):
    """sentence_bert_config.json: how a Transformer reads texts."""

    max_seq_length: int | None = None
    do_lower_case: bool = False
    transformer_task: Literal["feature-extraction"] = "feature-extraction"
    modality_config: Modalities | None = None
    module_output_name: Literal["token_embeddings", "sentence_embedding"] | None = None
    unpad_inputs: bool | None = None
    # arguments for the loaders of transformers, of which any could name another file
    processing_kwargs: Nothing = Field({})
    model_args: Nothing = Field({})
    model_kwargs: Nothing = Field({})
    tokenizer_args: Nothing = Field({})
    processor_kwargs: Nothing = Field({})
    config_args: Nothing = Field({})
    config_kwargs: Nothing = Field({})


class Pooling(Strict):
    word_embedding_dimension: int | None = None
    embedding_dimension: int | None = None
    pooling_mode: Word | list[Word] | None = None
    pooling_mode_cls_token: bool | None = None
    pooling_mode_mean_tokens: bool | None = None
    pooling_mode_max_tokens: bool | None = None
    pooling_mode_mean_sqrt_len_tokens: bool | None = None
    pooling_mode_weightedmean_tokens: bool | None = None
    pooling_mode_lasttoken: bool | None = None
    include_prompt: bool = True


Output = Literal["sentence_embedding", "token_embeddings"]
ACTIVATIONS = {**dict.fromkeys(("Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"), "activation"), "Identity": "linear"}


class Dense(Strict):
    in_features: int
    out_features: int
    bias: bool = True
    activation_function: Literal[tuple(f"torch.nn.modules.{place}.{name}" for name, place in ACTIVATIONS.items())]  # type: ignore[valid-type]
    module_input_name: Output | None = None
    module_output_name: Output | None = None
    use_residual: bool = False


class Normalize(Strict):
    module_input_name: Output | None = None
    module_output_name: Output | None = None


class LayerNorm(Strict):
    dimension: int


class Dropout(Strict):
    dropout: float


class WeightedLayerPooling(Strict):
    word_embedding_dimension: int | None = None
    embedding_dimension: int | None = None
    layer_start: int = 4
    num_hidden_layers: int = 12


class AddedToken(Strict):
    """A token with how it is found in texts, as tokenizers write it."""

    kind: Literal["AddedToken"] = Field("AddedToken", alias="__type")
    id: int | None = None
    content: str
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    single_word: bool = False
    special: bool = False


Token = str | AddedToken


class SpecialTokens(Strict):
    """special_tokens_map.json."""

    bos_token: Token | None = None
    eos_token: Token | None = None
    unk_token: Token | None = None
    sep_token: Token | None = None
    pad_token: Token | None = None
    cls_token: Token | None = None
    mask_token: Token | None = None
    additional_special_tokens: list[Token] | None = None
    extra_special_tokens: list[Token] | dict[Word, Token] | None = None
    boi_token: Token | None = None
    eoi_token: Token | None = None
    image_token: Token | None = None


class TokenizerSettings(SpecialTokens):
    """tokenizer_config.json."""

    tokenizer_class: TokenizerClass = None  # type: ignore[valid-type]
    added_tokens_decoder: dict[Word, AddedToken] = Field({})
    model_specific_special_tokens: dict[Word, Token] = Field({})
    backend: Literal["tokenizers", "sentencepiece", "python"] | None = None
    model_input_names: list[Word] | None = None
    model_max_length: float | None = None  # "no limit" is written as 1e30
    max_length: int | None = None
    max_len: int | None = None
    pad_to_multiple_of: int | None = None
    pad_token_type_id: int | None = None
    padding_side: Literal["left", "right"] | None = None
    truncation_side: Literal["left", "right"] | None = None
    truncation_strategy: Word | None = None
    stride: int | None = None
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    add_dummy_prefix_space: bool | None = None
    add_prefix_space: bool | None = None
    clean_up_tokenization_spaces: bool | None = None
    clean_text: bool | None = None
    do_basic_tokenize: bool | None = None
    do_lower_case: bool | None = None
    do_lowercase_and_remove_accent: bool | None = None
    errors: Literal["replace", "ignore", "strict"] | None = None
    extra_ids: int | None = Field(None, ge=0, le=10_000)
    from_slow: bool | None = None
    is_local: bool | None = None
    keep_accents: bool | None = None
    legacy: bool | None = None
    legacy_behaviour: bool | None = None
    local_files_only: bool | None = None
    never_split: list[str] | None = None
    normalization: bool | None = None
    remove_space: bool | None = None
    sp_model_kwargs: Nothing = Field({})
    spaces_between_special_tokens: bool | None = None
    split_by_punct: bool | None = None
    split_special_tokens: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    trim_offsets: bool | None = None
    unk_id: int | None = None
    use_default_system_prompt: bool | None = None
    use_fast: bool | None = None
    vocab_type: Word | None = None


class GenerationSettings(Strict):
    """generation_config.json: where a language model begins and ends, and how it repeats itself."""

    bos_token_id: int | list[int] | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    repetition_penalty: float | None = None


class Rope(Strict):
    """Rotary positions, in a network's configuration."""

    rope_type: Word | None = None
    type: Word | None = None
    rope_theta: float | None = None
    factor: float | None = None
    original_max_position_embeddings: int | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    short_factor: list[float] | None = None
    long_factor: list[float] | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    partial_rotary_factor: float | None = None
    truncate: bool | None = None


class RopeByLayer(Strict):
    full_attention: Rope | None = None
    sliding_attention: Rope | None = None


# Keys of a loader's arguments, which may be there without a value.
NULLABLE = _names("""
    sp_model_kwargs processing_kwargs model_args model_kwargs tokenizer_args processor_kwargs config_args
    config_kwargs""")
# Keys of files whose values nothing here needs. They are known, and not handed on.
LEFT_OUT = {
    "config.json": _names("""
    auto_map transformers.js_config adapters lora_adaptations _name_or_path name_or_path transformers_version
    id2label label2id num_labels problem_type task_specific_params finetuning_task prefix pruned_heads _commit_hash
    _num_labels max_length max_new_tokens min_length min_new_tokens early_stopping max_time stop_strings do_sample
    num_beams cache_implementation temperature top_k top_p min_p typical_p epsilon_cutoff eta_cutoff
    repetition_penalty encoder_repetition_penalty length_penalty no_repeat_ngram_size bad_words_ids
    renormalize_logits forced_bos_token_id forced_eos_token_id remove_invalid_values
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens guidance_scale num_return_sequences
    output_attentions output_scores return_dict_in_generate encoder_no_repeat_ngram_size diversity_penalty
    num_beam_groups tf_legacy_loss torchscript use_bfloat16 tie_encoder_decoder cross_attention_hidden_size"""),
    "generation_config.json": _names("""
    _from_model_config transformers_version max_length max_new_tokens min_length do_sample num_beams temperature
    top_k top_p typical_p length_penalty no_repeat_ngram_size early_stopping use_cache cache_implementation
    output_attentions output_hidden_states forced_bos_token_id forced_eos_token_id decoder_start_token_id
    num_return_sequences suppress_tokens begin_suppress_tokens"""),
    "tokenizer_config.json": _names("""
    auto_map name_or_path special_tokens_map_file tokenizer_file full_tokenizer_file vocab_file merges_file
    chat_template init_inputs processor_class device_map"""),
}

# Keys of a network's config.json, whatever its architecture: sizes, switches and names of functions.
NETWORK_KEYS = _names("""
    dense_seq_output fused_bias_fc fused_dropout_add_ln mlp_fc1_bias mlp_fc2_bias pad_vocab_size_multiple
    parallel_block prenorm qkv_proj_bias rotary_emb_interleaved rotary_scaling_factor use_flash_attn use_rms_norm
    use_xentropy emb_pooler matryoshka_dimensions truncate_dim load_trained_adapters attention_softmax_in_fp32
    bias_dropout_fusion masked_softmax_fusion n_embed offset_alibi seq_length skip_bias_add skip_bias_add_qkv
    unk_token_id is_llama_config rope_interleaved xla_device eos_token_ids tie_weights_ architectures
    chunk_size_feed_forward dtype gradient_checkpointing is_causal is_encoder_decoder language model_type name
    num_classes output_hidden_states output_past return_dict rope_parameters rope_scaling rope_theta
    partial_rotary_factor rotary_pct rotary_emb_base tokenizer_class torch_dtype attn_implementation
    _attn_implementation _attn_implementation_autoset directionality pooler_fc_size pooler_num_attention_heads
    pooler_num_fc_layers pooler_size_per_head pooler_type position_embedding_type model_max_length
    embedding_dropout_prob net_structure_type gap_size pooling_dropout global_rope_theta local_rope_theta
    rotary_emb_fraction rotary_emb_scale_base rope_local_base_freq global_attn_every_n_layers reference_compile
    repad_logits_with_grad static unpad_inputs logn_attention_scale logn_attention_clip1 pack_qkv
    use_memory_efficient_attention max_trained_positions mup tie_weights dense_act_fn is_gated_act n_special n_vocab
    predict_special_tokens summary_hidden_size untie_r sliding_window_pattern _sliding_window_pattern layer_norm
    activation activation_dropout activation_function adapter_layer_norm adapter_reduction_factor
    adapter_reuse_layer_norm add_cross_attention afn alibi apply_residual_connection_post_layernorm asm
    attention_bias attention_dropout attention_heads attention_layers attention_multiplier
    attention_probs_dropout_prob attention_type attention_types attention_window attn_logit_softcapping attn_pdrop
    attn_type bi_data block_auto_adjust_ff_dim block_dim block_ff_dim block_ffn_dim_multiplier block_mlp_init_scale
    block_multiple_of block_norm_eps block_out_dim block_repeats block_size block_sizes block_use_swiglu
    block_use_xavier_init bos_index bos_token_id causal clamp_len classifier_activation classifier_bias
    classifier_dropout classifier_dropout_prob classifier_pooling clip_qkv cls_token_id conv_L_cache conv_bias
    conv_dim conv_dim_out conv_kernel_size conv_use_xavier_init d_ff d_head d_inner d_kv d_model decoder_bias
    decoder_start_token_id default_language deterministic_flash_attn dff dim do_layer_norm_before dropout
    dropout_rate emb_dim embd_pdrop embed_dropout embed_init_std embedding_dropout embedding_multiplier
    embedding_size enable_bias encoder_attention_type encoder_layers end_n_top eos_index eos_token_id
    feed_forward_proj ff_activation ffn_dim ffn_hidden_size final_logit_softcapping full_attn_idxs gelu_activation
    global_block_size head_dim head_ratio hidden_act hidden_activation hidden_dim hidden_dropout hidden_dropout_prob
    hidden_size init_std initializer_cutoff_factor initializer_factor initializer_range initializer_std
    inner_group_num input_embedding_size intermediate_groups intermediate_size intra_bottleneck_size
    inv_coeff_init_option is_decoder is_encoder k_groups key_query_shared_bottleneck lang_id languages
    layer_norm_bias layer_norm_elementwise_affine layer_norm_eps layer_norm_epsilon layer_types layerdrop legacy
    ln_before_adapter local_attention local_radius logit_scale logits_scaling mask_index mask_token_id
    max_position_embeddings max_relative_positions max_window_layers mem_len mlp_bias mlp_dropout n_ctx n_embd
    n_head n_heads n_inner n_langs n_layer n_layers n_positions no_rope_layer_interval no_rope_layers norm_bias
    norm_eps norm_epsilon norm_rel_ebd normalization_type num_attention_heads num_buckets num_decoder_layers
    num_encoder_layers num_feedforward_networks num_groups num_heads num_hidden_groups num_hidden_layers
    num_key_value_heads num_landmarks num_layers num_random_blocks onnx_export original_max_position_embeddings
    output_embedding_size output_groups pad_index pad_token_id pool_q_only pooler_dropout pooler_hidden_act
    pooler_hidden_size pooling_type pos_att_type position_biased_input position_buckets post_attention_groups
    pre_norm pretraining_tp q_groups qa_dropout qk_layernorm query_pre_attn_scalar relative_attention
    relative_attention_max_distance relative_attention_num_buckets reorder_and_upcast_attn rescale_embeddings
    resid_dropout resid_pdrop residual_dropout residual_multiplier reuse_len rms_norm_eps rotary_dim rotary_value
    same_length scale_attn_by_inverse_layer_idx scale_attn_weights scale_decoder_outputs scale_embedding
    segment_means_seq_len sep_token_id separate_cls seq_classif_dropout share_att_key sinusoidal_embeddings
    sinusoidal_pos_embds sliding_window slow_but_exact sparse_pred_ignore_index sparse_prediction start_n_top
    summary_activation summary_first_dropout summary_last_dropout summary_proj_to_labels summary_type
    summary_use_proj task_type_vocab_size tie_word_embeddings tpu_short_seq_length trigram_input true_hidden_size
    truncate_seq type_vocab_size unk_index use_bidirectional_attention use_bias use_bottleneck
    use_bottleneck_attention use_cache use_lang_emb use_mems_eval use_mems_train use_parallel_residual use_pos_enc
    use_qk_norm use_qkv_bias use_sliding_window use_task_id use_tpu_fourier_optimizations v_groups vocab_size
    window_size word_embed_proj_dim z_loss_coefficient z_loss_weight _remove_final_layer_norm""")
NETWORK_VALUES: dict[str, Any] = {  # of keys whose values are no sizes, switches and words
    "rope_parameters": Rope | RopeByLayer | None,
    "rope_scaling": Rope | RopeByLayer | None,
    "tokenizer_class": TokenizerClass,
    "dtype": Precision | None,
    "torch_dtype": Precision | None,
    "attn_implementation": Attention,
    "_attn_implementation": Attention,
}
# Keys of the objects of a tokenizer.json, but for words, which are data.
TOKENIZER_FILE = _names("""
    version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model""")
TOKENIZER_KEYS = _names("""
    type normalizers pretokenizers processors decoders pattern Regex String content behavior invert prepend
    lowercase strip_accents clean_text handle_chinese_chars add_prefix_space trim_offsets use_regex sep cls single
    pair special_tokens Sequence SpecialToken A B id ids tokens type_id replacement prepend_scheme split
    individual_digits suffix prefix cleanup start stop strip_left strip_right left right pad_token
    word_delimiter_token precompiled_charsmap str_rep delimiter direction max_length strategy stride
    pad_to_multiple_of pad_id pad_type_id pad_token Fixed single_word lstrip rstrip normalized special unk_token
    continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges dropout
    max_input_chars_per_word unk_id merges vocab""")
