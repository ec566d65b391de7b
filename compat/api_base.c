/* api_base.c: see api_base.h. */
#include "compat/api_base.h"

#include "compat/api_type.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define EXCEPTION_HAS "args with_traceback add_note __cause__ __context__ __traceback__"
#define SIZED_HAS " __len__ __iter__ __contains__ __getitem__ __class_getitem__ "
#define SEQUENCE_HAS SIZED_HAS "__add__ __mul__ __rmul__ __reversed__ "
#define NUMBER_HAS                                                                                 \
    " __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ "   \
    "__rfloordiv__ __mod__ __rmod__ __divmod__ __pow__ __rpow__ __neg__ __pos__ __abs__ __int__ "  \
    "__float__ __bool__ __round__ __trunc__ __floor__ __ceil__ "
#define BITS_HAS                                                                                   \
    " __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rshift__ __invert__ "          \
    "__index__ "
#define INT_HAS                                                                                    \
    "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer "      \
    "numerator real to_bytes" NUMBER_HAS BITS_HAS
#define STR_HAS                                                                                    \
    "capitalize casefold center count encode endswith expandtabs find format format_map index "    \
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "        \
    "isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix "            \
    "removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines "           \
    "startswith strip swapcase title translate upper zfill" SEQUENCE_HAS "__mod__"
#define MAPPING_HAS                                                                                \
    SIZED_HAS "__setitem__ __delitem__ __or__ __ior__ __ror__ __reversed__ "                       \
              "clear copy fromkeys get items keys pop popitem setdefault update values"

static const struct api_base bases[] = {
    {"object abc.ABC typing.Generic contextlib.ContextDecorator "
     "contextlib.AbstractContextManager contextlib.AbstractAsyncContextManager "
     "collections.abc.Hashable collections.abc.Sized collections.abc.Callable "
     "collections.abc.Awaitable collections.abc.AsyncIterator collections.abc.AsyncIterable "
     "collections.abc.Iterator collections.abc.Iterable collections.abc.Container",
     0, ""},
    {"typing.Protocol typing_extensions.Protocol", API_TRAIT_PROTOCOL, ""},
    {"enum.Enum", API_TRAIT_ENUM, "name value"},
    {"enum.IntEnum", API_TRAIT_ENUM, "name value " INT_HAS},
    {"enum.StrEnum", API_TRAIT_ENUM, "name value " STR_HAS},
    {"enum.Flag", API_TRAIT_ENUM, "name value __iter__ __len__ __contains__ __bool__" BITS_HAS},
    {"enum.IntFlag", API_TRAIT_ENUM, "name value __iter__ __len__ __contains__ " INT_HAS},
    {"typing.NamedTuple collections.namedtuple", API_TRAIT_NAMEDTUPLE,
     SEQUENCE_HAS "count index _asdict _replace _make _fields _field_defaults"},
    {"typing.TypedDict typing_extensions.TypedDict", API_TRAIT_TYPEDDICT, MAPPING_HAS},
    {"msgspec.Struct", API_TRAIT_STRUCT, "__struct_fields__ __struct_config__ __struct_defaults__"},
    {"pydantic.BaseModel pydantic.main.BaseModel", API_TRAIT_PYDANTIC,
     "model_dump model_dump_json model_validate model_validate_json model_validate_strings "
     "model_construct model_copy model_fields model_computed_fields model_extra model_fields_set "
     "model_config model_json_schema model_post_init model_rebuild model_parametrized_name dict "
     "json copy parse_obj parse_raw parse_file from_orm construct schema schema_json validate "
     "update_forward_refs __fields__"},
    {"torch.nn.Module torch.nn.modules.Module torch.nn.modules.module.Module", API_TRAIT_MODULE,
     "training dump_patches call_super_init add_module apply bfloat16 buffers children compile cpu "
     "cuda double eval extra_repr float forward get_buffer get_extra_state get_parameter "
     "get_submodule half ipu load_state_dict modules mtia named_buffers named_children "
     "named_modules named_parameters parameters register_backward_hook register_buffer "
     "register_forward_hook register_forward_pre_hook register_full_backward_hook "
     "register_full_backward_pre_hook register_load_state_dict_post_hook "
     "register_load_state_dict_pre_hook register_module register_parameter "
     "register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state "
     "set_submodule share_memory state_dict to to_empty train type xpu zero_grad _apply "
     "_parameters _buffers _modules _load_from_state_dict _save_to_state_dict _get_name "
     "_call_impl _forward_hooks _forward_pre_hooks _non_persistent_buffers_set"},
    {"dict builtins.dict collections.OrderedDict collections.UserDict", 0,
     MAPPING_HAS " move_to_end data"},
    {"list builtins.list", 0,
     "append clear copy count extend index insert pop remove reverse sort"},
    {"tuple builtins.tuple", 0, SEQUENCE_HAS "count index"},
    {"set builtins.set", 0,
     SIZED_HAS
     "__and__ __or__ __sub__ __xor__ __iand__ __ior__ __isub__ __ixor__ add clear "
     "copy difference difference_update discard intersection intersection_update "
     "isdisjoint issubset issuperset pop remove symmetric_difference symmetric_difference_update "
     "union update"},
    {"int builtins.int bool", 0, INT_HAS},
    {"float builtins.float", 0,
     "as_integer_ratio conjugate fromhex hex imag is_integer real" NUMBER_HAS},
    {"str builtins.str", 0, STR_HAS},
};

static const struct api_base exception = {"", API_TRAIT_EXCEPTION, EXCEPTION_HAS};
static const struct api_base os_error = {
    "", API_TRAIT_EXCEPTION, EXCEPTION_HAS " errno strerror filename filename2 winerror"};

bool api_has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    if (n == 0) return false;
    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word)) {
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    }
    return false;
}

/* A builtin exception by its form: the language has 60 of them, and they are alike. */
static const struct api_base *exception_of(const char *name)
{
    static const char more[] =
        "BaseException Exception StopIteration StopAsyncIteration SystemExit "
        "KeyboardInterrupt GeneratorExit ExceptionGroup BaseExceptionGroup";
    const char *last = strncmp(name, "builtins.", 9) == 0 ? name + 9 : name;
    size_t n = strlen(last);
    if (strchr(last, '.') || !isupper((unsigned char)last[0])) return NULL;
    if (api_has_word("OSError IOError EnvironmentError FileNotFoundError PermissionError "
                     "ConnectionError TimeoutError FileExistsError InterruptedError",
                     last))
        return &os_error;
    bool form = (n > 5 && strcmp(last + n - 5, "Error") == 0) ||
                (n >= 7 && strcmp(last + n - 7, "Warning") == 0);
    return form || api_has_word(more, last) ? &exception : NULL;
}

const struct api_base *api_base_of(const char *name)
{
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        if (api_has_word(bases[i].name, name)) return &bases[i];
    }
    return exception_of(name);
}

bool api_object_has(const char *name, bool on_class)
{
    static const char instance[] =
        "__class__ __dict__ __doc__ __module__ __weakref__ __init__ __new__ __init_subclass__ "
        "__subclasshook__ __repr__ __str__ __format__ __hash__ __eq__ __ne__ __lt__ __le__ __gt__ "
        "__ge__ __getattribute__ __setattr__ __delattr__ __dir__ __sizeof__ __reduce__ "
        "__reduce_ex__ __getstate__ __slots__ __annotations__ __orig_class__";
    static const char class_[] = "__name__ __qualname__ __mro__ __bases__ __base__ __subclasses__ "
                                 "mro __call__ __instancecheck__ __subclasscheck__ __prepare__ "
                                 "__abstractmethods__ __type_params__ __orig_bases__ register";
    return api_has_word(instance, name) || (on_class && api_has_word(class_, name));
}

enum api_decorator api_decorator_of(const char *text)
{
    static const struct {
        const char *names;
        enum api_decorator is;
    } rows[] = {
        {"dataclasses.dataclass", API_DECORATOR_DATACLASS},
        {"pydantic.dataclasses.dataclass", API_DECORATOR_PYDANTIC},
        {"attr.s attr.attrs attr.dataclass attr.define attr.frozen attr.mutable attrs.define "
         "attrs.frozen attrs.mutable",
         API_DECORATOR_ATTRS},
        {"typing.final typing_extensions.final typing.runtime_checkable "
         "typing_extensions.runtime_checkable enum.unique enum.verify functools.total_ordering "
         "typing.no_type_check warnings.deprecated typing_extensions.deprecated "
         "typing.dataclass_transform typing_extensions.dataclass_transform torch.compile "
         "torch.no_grad torch.inference_mode",
         API_DECORATOR_PLAIN},
    };
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "("), text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (api_has_word(rows[i].names, name)) return rows[i].is;
    }
    return API_DECORATOR_UNKNOWN;
}

const char *api_strange_decorator(const struct api_def *c)
{
    size_t root = strcspn(c->path, ".:");
    for (int i = 0; i < c->class_->decorators.count; i++) {
        const char *text = c->class_->decorators.text[i];
        bool own = strncmp(text, c->path, root) == 0 && text[root] == '.';
        if (!own && api_decorator_of(text) == API_DECORATOR_UNKNOWN) return text;
    }
    return NULL;
}

bool api_says(const char *text, const char *keyword, bool dflt)
{
    size_t n = strlen(keyword);
    for (const char *at = strstr(text, keyword); at; at = strstr(at + 1, keyword)) {
        bool begins = at > text && (at[-1] == '(' || at[-1] == ' ' || at[-1] == ',');
        const char *value = at + n;
        while (*value == ' ') value++;
        if (!begins || *value++ != '=') continue;
        while (*value == ' ') value++;
        if (strncmp(value, "True", 4) == 0) return true;
        if (strncmp(value, "False", 5) == 0) return false;
    }
    return dflt;
}
